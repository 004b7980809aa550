"""Tuning constants of sweeps. The comment at each one describes its trade-off."""

# Seconds between two checks of a process. LOOK_AGAIN: checks of its memory. SIGN: checks that it is alive. Higher: less
# overhead, later reactions.
LOOK_AGAIN, SIGN = 0.05, 1.0
# Seconds within which a process must finish its imports. Higher: sweeps work on slower machines, but broken processes
# are noticed later.
START = 120.0
# AHEAD: maximum number of jobs submitted per worker. GRAPHS: number of graphs cached in memory. Higher: workers wait
# less, more memory.
AHEAD, GRAPHS = 2, 8
# Seconds between checks of the number of workers. Higher: new workers get their first jobs later.
LOOK = 1.0
# Maximum number of times that one job may be lost, and maximum number of executors that may break consecutively.
# Higher: jobs survive more faults, but bad jobs kill more workers.
LOST = 20
# PAUSE: seconds until a failed start of a process is repeated. START_PATIENCE: seconds without a start until the sweep
# gives up. Higher: less load, but failures end the sweep later.
PAUSE, START_PATIENCE = 1.0, 120.0
