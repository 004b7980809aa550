assert plan.details["stash"] == size(three, stash(three, best))
assert set(np.flatnonzero(plan.simulation.runs[: len(names)] > 1).tolist()) == best
