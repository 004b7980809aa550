"""Tuning constants of captures and their plans; each comment states the trade-off."""

# Limits that `fit` tries for a compiled model. Higher: closer to the memory of the device, more time to compile.
ATTEMPTS = 5
# Largest integer tensor, in elements, that a capture computes with real numbers. Higher: more models can be
# captured, more memory.
KNOWN_ELEMENTS = 2**16
# Budgets at which the body of a scan is planned. Higher: a better choice, more time.
SCAN_POINTS = 8
