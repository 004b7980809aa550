assert centric["memory"].peak_memory < centric["time"].peak_memory == one_pass
assert centric["time"].details["formula_overhead"] < centric["memory"].details["formula_overhead"] <= 6
assert best.peak_memory < budget
