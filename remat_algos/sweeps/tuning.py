"""Numbers of sweeps that change outcomes or times, each with what it trades."""

# Seconds between checks: LOOK_AGAIN of a job's memory, SIGN of whether its process is alive. Higher: less overhead,
# later ends.
LOOK_AGAIN, SIGN = 0.05, 1.0
# Seconds allowed for a process to import everything. Higher: slower machines work, broken ones are noticed later.
START = 120.0
# AHEAD: jobs submitted per worker. GRAPHS: graphs cached in memory. Higher: workers wait less, more memory.
AHEAD, GRAPHS = 2, 8
# Seconds between counts of workers. Higher: new workers get jobs later.
LOOK = 1.0
# Number of times that executors may lose a job, or break. Higher: jobs survive more faults, bad ones kill more workers.
LOST = 20
# Seconds until a failed start of a process is repeated (PAUSE), and until the sweep gives up (START_PATIENCE). Higher:
# less load, later ends.
PAUSE, START_PATIENCE = 1.0, 120.0
