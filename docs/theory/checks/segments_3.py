assert in_segments(36, 3) == in_segments(36, 12) == (3 + 12 + 1, 2 * 11)
