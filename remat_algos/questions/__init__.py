"""Questions about plans: compare, explain, what if, fit, and the frontier of budgets."""
