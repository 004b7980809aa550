"""What can be seen in a graph: lower sets, articulation values."""
