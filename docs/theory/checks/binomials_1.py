assert n == 15 and t(n, 4) == ra.solve(chain(n), solver="revolve", checkpoints=4, raw=True).overhead + n - 1 == 24
