assert stashes_and_peaks(network(first)) == {
    "as printed": (3, 15),
    "paper": (3, 14),
    "exact": (3, 15),
    "one pass": (6, 14),
}
assert stashes_and_peaks(network(second)) == {
    "as printed": (4, 23),
    "paper": (2, 26),
    "exact": (2, 26),
    "one pass": (10, 23),
}
