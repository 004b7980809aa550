options = {"solver": "twremat", "recursion_limit": 1, "orders": 1, "raw": True}
assert ra.solve(ten, batching=False, **options).schedule.order.tolist() == order
