assert all(
    literal(attention(t)).details["stash"] > ra.solve(attention(t), solver="echo", raw=True).details["stash"]
    for t in (3, 5)
)
