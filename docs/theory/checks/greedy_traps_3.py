for budget in range(22, 37):
    one, two, three = (local_optima(budget, k) for k in (1, 2, 3))
    assert len(one) >= len(two) >= len(three) and len(set(three)) == 1
    assert budget not in range(23, 35) or len(one) > len(two)
    assert three[0] == min(cost for peak, cost in table.values() if peak <= budget)
