"""GreedyRemat as section 4 of kumar2019 tells it: one operation at a time, a list, everything looked up afresh.

"Starting with a topological sort of all operations, it processes each operation sequentially. At each stage, if the
current memory usage is over a specified memory limit, the algorithm attempts to rematerialize an already scheduled
operation. In particular, the operation whose rematerialization maximizes the amount of reduction in memory usage is
chosen greedily at each step. If the memory usage cannot be reduced, the algorithm moves on to the next operation."

The text leaves open which of equals is chosen (here the first), where an operation runs again (here just before the
next one that reads it), and when a loop of mutual postponement ends (here at a number of runs).
"""

from tests.oracles.plain import plain


def greedy_of_the_paper(graph, order, limit, max_runs):
    """The order that the text makes of a sound one."""
    g, runs, now = plain(graph), list(order), 0
    while now < len(runs):
        while usage(g, runs, now) > limit and len(runs) < max_runs:
            reductions = [reduction(g, runs, now, k) for k in range(now)]
            if max(reductions, default=0) <= 0:
                break
            chosen = reductions.index(max(reductions))
            runs.insert(next_reader(g, runs, now, chosen), runs[chosen])
        now += 1
    return runs


def readers(g, runs, k, x):
    """Places that read value x of the run at place k: up to the next run of its node, of an output all to the end."""
    first = runs.index(runs[k]) == k
    if x in g.outputs and not first:
        return []
    again = [i for i in range(k + 1, len(runs)) if runs[i] == runs[k]]
    end = len(runs) if x in g.outputs or not again else again[0] + 1
    return [i for i in range(k + 1, end) if x in g.reads[runs[i]]]


def is_live(g, runs, now, k, x):
    """Is value x of the scheduled run at place k in memory at a stage?"""
    pinned = x in g.outputs and runs.index(runs[k]) == k
    return k == now or pinned or any(i >= now for i in readers(g, runs, k, x))


def usage(g, runs, now):
    live = [x for k in range(now + 1) for x in g.values[runs[k]] if is_live(g, runs, now, k, x)]
    return sum(g.memory[x] for x in live) + g.workspace[runs[now]]


def released(g, runs, now, k):
    """Values of a scheduled run that leave memory if it is to run again: live, no outputs, with readers to come."""
    return [x for x in g.values[runs[k]] if x not in g.outputs and any(i > now for i in readers(g, runs, k, x))]


def reduction(g, runs, now, k):
    """Bytes released, less those of its inputs that would otherwise be gone by now."""
    node = runs[k]
    if g.once[node] or g.mark[node] == 1 or any(now in readers(g, runs, k, x) for x in g.values[node]):
        return 0
    kept_for_it = 0
    for x in g.reads[node]:
        made = [i for i in range(now + 1) if runs[i] == g.producer[x]]
        newest = made[0] if x in g.outputs else made[-1]
        if not is_live(g, runs, now, newest, x):
            kept_for_it += g.memory[x]
    return sum(g.memory[x] for x in released(g, runs, now, k)) - kept_for_it


def next_reader(g, runs, now, k):
    return min(i for x in released(g, runs, now, k) for i in readers(g, runs, k, x) if i > now)
