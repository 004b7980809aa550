assert 8 * MB / W / 1000 < 24 and 8 * MB / W / 1000 > 23 and 13 < 8 * MB / W_load / 1000 < 14
