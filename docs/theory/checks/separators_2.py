for order_of_seven, step in ((printed, 1), (fewer_calls, 4)):
    try:
        ra.simulate(seven, order_of_seven)
    except ra.ScheduleError as error:
        assert seven.labels[error.node] == "q" and "v0" in str(error) and order_of_seven.index(error.node) == step
    else:
        raise AssertionError("the printed algorithm has no fault here")
assert len(corrected.schedule) == 8 and corrected.peak_memory == 3
