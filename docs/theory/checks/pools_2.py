lowest = ra.solve(graph, 18 * UNIT)
assert plan.reservation.memory == ra.allocate.cupy_pool(lowest.simulation).peak_reserved
assert plan.peak_memory > lowest.peak_memory and plan.overhead < lowest.overhead
