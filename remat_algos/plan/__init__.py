"""Plans: the simulated schedule, JSON, verification of claims, and policies for other frameworks."""
