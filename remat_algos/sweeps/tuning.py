"""Numbers of sweeps that change outcomes or times, each with what it trades."""

# Seconds between checks of a job's memory, and of whether its process lives. Higher: less overhead, later ends.
LOOK_AGAIN, SIGN = 0.05, 1.0
# Seconds allowed for a process to import everything. Higher: slower machines work, broken ones are noticed later.
START = 120.0
# Jobs submitted per worker, and graphs cached in memory. Higher: workers wait less, more memory.
AHEAD, GRAPHS = 2, 8
# Seconds between counts of workers. Higher: new workers get jobs later.
LOOK = 1.0
# Number of times that executors may lose a job, or break. Higher: jobs survive more faults, bad ones kill more workers.
LOST = 20
# Seconds until a process that did not start is started again, and until the sweep gives up. Higher: less load, later
# ends.
PAUSE, START_PATIENCE = 1.0, 120.0
