for k, d in ((1, 6), (3, 3)):
    plan = recursive(63, k, d)
    assert (plan.peak_memory, len(plan.schedule) - 63) == (k * d + 2, d * k * (k + 1) ** (d - 1))
