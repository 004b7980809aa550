"""A plan: its simulated schedule, its JSON, the proofs of its claims, and its policies for other frameworks."""
