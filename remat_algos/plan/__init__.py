"""From a graph and a budget to a simulated plan."""
