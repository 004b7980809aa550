"""Numbers of devices, links and their calibration that change costs, each with what it trades."""

# Seconds per launch on a GPU of the table, and per copy over a link of the table: the order of magnitude of consecutive
# launches and of asynchronous copies by a framework. Data sheets lack both; `remat calibrate` measures them. Higher:
# small nodes cost more, small copies are worth less.
LAUNCH, LATENCY = 5e-6, 1e-5
# Side of a tile in elements: the smaller of the two that NVIDIA lists for cuBLAS, 64 and 128 (Matrix Multiplication
# Background User's Guide, 2023, section 2.3). Higher: more multiprocessors are idle.
TILE = 64
# Default share of a link's rates that plans use: at 1, plans cost more than recomputation alone where a link attains
# 10 % less. Higher: more copies, which may be late.
PLANNED_SHARE = 0.9
# Ticks in the shortest cost or copy if ticks cannot be exact. Higher: smaller errors, less room for sums.
FINE = 10**9

# ---- calibration
# SMALLEST_PRODUCT: order of the first matrices. PRODUCT_SECONDS: maximum seconds for all repeats of one order. Higher:
# rates of larger products, more time.
SMALLEST_PRODUCT, PRODUCT_SECONDS = 256, 2.0
# Bytes of an array; two arrays exceed any cache. Higher: more reliable bandwidths, more memory.
STREAM_BYTES = 2**27
# In one timing, LAUNCHES_TIMED tiny operations, or COPIES_TIMED copies between device and host, run in a row. Higher:
# more reliable times, more time.
LAUNCHES_TIMED, COPIES_TIMED = 200, 16
# Bytes of such copies, 4 KiB to 64 MiB. More: a more reliable fit of latency and rate, more time.
COPY_SIZES = tuple(4**k for k in range(6, 14))
