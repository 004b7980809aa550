"""Lower bounds that hold for every schedule."""
