assert all(t(comb(s + r, s) + 1, s) - t(comb(s + r, s), s) == r + 1 for s in range(1, 4) for r in range(1, 4))
