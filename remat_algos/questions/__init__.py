"""Questions about plans: compare solvers, explain and flip decisions, fit a model, compute a frontier."""
