"""From a request to a plan: what limits it, one pool of what was found, and the loops that fill it."""
