"""Plans: a simulated schedule with its JSON, the verification of its claims, and policies for other frameworks."""
