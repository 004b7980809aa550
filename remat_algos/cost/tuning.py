"""Tuning constants for costs and calibration. The comment at each one describes its trade-off."""

# LAUNCH: seconds per launch on a GPU in the table. LATENCY: seconds per copy over a link in the table. Both are orders
# of magnitude, for consecutive launches and asynchronous copies in a framework. Data sheets contain neither; `remat
# calibrate` measures both. Higher LAUNCH: small nodes cost more. Higher LATENCY: small copies cost more.
LAUNCH, LATENCY = 5e-6, 1e-5
# Side of a tile in elements. NVIDIA lists 64 and 128 for cuBLAS (Matrix Multiplication Background User's Guide, 2023,
# section 2.3); this is the smaller one. Higher: more multiprocessors count as idle.
TILE = 64
# Default share of a link's rates that plans assume. With a share of 1, if the actual link is 10 % slower than its
# rates, plans take longer than plans without copies. Higher: more copies, but they may be late.
PLANNED_SHARE = 0.9
# Number of ticks in the shortest cost or copy if ticks cannot be exact. Higher: smaller errors, less room for sums.
FINE = 10**9

# ---- calibration
# SMALLEST_PRODUCT: order of the first matrices. PRODUCT_SECONDS: maximum seconds for all repeats with one order.
# Higher SMALLEST_PRODUCT: fewer small products. Higher PRODUCT_SECONDS: more large products, but more time.
SMALLEST_PRODUCT, PRODUCT_SECONDS = 256, 2.0
# Bytes of one array; two arrays together exceed any cache. Higher: more reliable bandwidths, more memory.
STREAM_BYTES = 2**27
# Number of operations that one timing runs in a row. LAUNCHES_TIMED: tiny operations. COPIES_TIMED: copies between
# device and host. Higher: more reliable times, more time.
LAUNCHES_TIMED, COPIES_TIMED = 200, 16
# Sizes of the copies between device and host, 4 KiB to 64 MiB. More: a better fit of latency and rate, more time.
COPY_SIZES = tuple(4**k for k in range(6, 14))
