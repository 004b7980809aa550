assert [runs[tuple(u for u in range(4) if u != v)].peak_memory < 25 for v in range(4)] == [True, False, False, False]
