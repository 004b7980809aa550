"""Numbers of captures and their plans that change results or times, each with what it trades."""

# Limits that `fit` tries for a compiled model. Higher: closer to the memory of the device, more time to compile.
ATTEMPTS = 5
# Elements of a tensor of integers whose numbers a capture computes. Higher: more models can be captured, more
# memory.
KNOWN_ELEMENTS = 2**16
# Budgets at which the body of a scan is planned. Higher: a better choice, more time.
SCAN_POINTS = 8
