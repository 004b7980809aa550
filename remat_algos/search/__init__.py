"""From a request to a plan: the limits, the pool of candidates, and the searches that fill it."""
