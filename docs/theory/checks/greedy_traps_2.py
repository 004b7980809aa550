assert costs[26][1] == 81 and costs[28][1] == 88 and (costs[26][2], costs[28][2]) == (81, 80)
for column in (0, 2):
    assert all(costs[b][column] <= costs[a][column] for a, b in itertools.pairwise(sorted(costs)))
