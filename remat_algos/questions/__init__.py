"""Questions about plans: compare, explain, flip decisions, fit a model, compute a frontier."""
