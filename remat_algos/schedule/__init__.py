"""Orders of running nodes, and the judge."""
