assert (by_ids.peak_memory, best.peak_memory) == (23, 11) and best.overhead == 0
assert sum(count.values()) == 24 and count[11] == 1
assert best.schedule.order.tolist() == [0, 1, 4, 5, 3, 6, 2]
