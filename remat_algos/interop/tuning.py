"""Tuning constants for captures and plans of captured graphs. The comment at each one describes its trade-off."""

# Maximum number of limits that `fit` tries for a compiled model. Higher: plans closer to the memory of the device,
# but more time to compile.
ATTEMPTS = 5
# Maximum number of elements of an integer tensor whose elements a capture computes. Higher: more models can be
# captured, but with more memory.
KNOWN_ELEMENTS = 2**16
# Number of budgets for which the body of a scan is planned. Higher: a better choice, but more time.
SCAN_POINTS = 8
