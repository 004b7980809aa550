"""What is asked about plans: compared, explained, changed, fitted, and the curve of budgets."""
