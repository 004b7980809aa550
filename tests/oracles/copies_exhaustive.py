"""The least time of small graphs over all orders, all runs and all copies to the host and back.

Best first over what is on the device and on the host. An action stores, frees, loads or runs; a store may come after
any run while its value is there. Between two runs stores come before frees, and these before loads. Of two ways to the
same place one is left out if no engine and no copy is earlier in it. Also left out are frees where all fits, and runs
and loads on which no missing output rests. No simulator is used.

Memory is counted when a node runs: what it reads, all that it makes, its workspace, and all that has not been freed. A
free of a value that is being copied, either way, waits for the end of the copy.
"""

import heapq
import itertools

from tests.oracles.plain import plain

OUT, IN = "out", "in"
STORING, FREEING, LOADING = range(3)  # what may still come before the next run


def least_time(graph, limit, out_time=None, in_time=None, most=10**9):
    """The least time of any plan within a limit, None if there is no plan.

    out_time, in_time : time of one copy of each value; None: nothing is copied. RuntimeError after `most` states.
    """
    g = plain(graph)
    needed = sorted(g.needed())
    read = {x for v in needed for x in g.reads[v]}
    single = {v for v in needed if g.once[v] or g.mark[v] == 1}
    allowed = set() if out_time is None else {x for x in read if x not in g.outputs and g.memory[x] > 0}
    rests = outputs_above(g, needed)
    estimates, labels, count, queue = {}, {}, itertools.count(), []

    def weigh(values):
        return sum(g.memory[x] for x in values)

    def estimate(place):
        """Compute of the nodes that have to run from here on."""
        live, _, stored, _ = place
        found, todo = set(), [g.producer[x] for x in g.outputs - live]
        while todo:
            v = todo.pop()
            if v not in found:
                found.add(v)
                todo += [g.producer[x] for x in g.reads[v] if x not in live and x not in stored]
        return sum(g.compute[v] for v in found)

    def push(place, times):
        """times: (clock, end of the last copy out, of the last copy in, ends of copies of what is on the device)."""
        clock, out_free, in_free, ends = times
        ends = {copy: end for copy, end in ends.items() if end > clock}
        times = clock, max(clock, out_free), max(clock, in_free), ends
        kept = labels.setdefault(place, [])
        if any(no_later(other, times) for other in kept):
            return
        kept[:] = [other for other in kept if not no_later(times, other)]
        kept.append(times)
        if place not in estimates:
            estimates[place] = estimate(place)
        total = max(times[1], times[2], clock + estimates[place])
        heapq.heappush(queue, (total, -next(count), place, times))

    push((frozenset(), frozenset(), frozenset(), STORING), (0, 0, 0, {}))
    while queue:
        total, _, place, times = heapq.heappop(queue)
        if not any(times is other for other in labels[place]):
            continue
        live, made, stored, phase = place
        clock, out_free, in_free, ends = times
        missing = g.outputs - live
        if not missing:
            return total
        most -= 1
        if most < 0:
            raise RuntimeError("more states than allowed")
        tight = False
        for v in needed:
            own, reads = set(g.values[v]), set(g.reads[v])
            if not reads <= live | stored or not rests[v] & missing or (v in made and v in single):
                continue
            if live & own - g.outputs or weigh(live | stored) + weigh(own) + g.workspace[v] > limit:
                tight = True
            if not reads <= live or live & own - g.outputs or weigh(live) + weigh(own) + g.workspace[v] > limit:
                continue
            end = max([clock, *(ends.get((IN, x), 0) for x in reads)]) + g.compute[v]
            push((live | own, made | {v}, stored, STORING), (end, out_free, in_free, ends))
        for x in (live & allowed) - stored if phase == STORING else ():
            end = max(clock, out_free) + out_time[x]
            push((live, made, stored | {x}, STORING), (clock, end, in_free, ends | {(OUT, x): end}))
        for x in live - g.outputs if tight and phase <= FREEING else ():
            until = max(clock, ends.get((OUT, x), 0), ends.get((IN, x), 0))
            push((live - {x}, made, stored, FREEING), (until, out_free, in_free, ends))
        for x in stored - live:
            if any(x in g.reads[v] and rests[v] & missing for v in needed):
                end = in_free + in_time[x]
                push((live | {x}, made, stored, LOADING), (clock, out_free, end, ends | {(IN, x): end}))
    return None


def outputs_above(g, needed):
    """Of each node, the outputs that rest on it, its own among them."""
    rests = {v: g.outputs.intersection(g.values[v]) for v in needed}
    for v in reversed(needed):
        for u in g.predecessors(v):
            rests[u] |= rests[v]
    return rests


def no_later(times, other):
    """True if no engine and no copy is later in the first."""
    ends = other[3]
    return all(times[i] <= other[i] for i in range(3)) and all(
        end <= ends.get(copy, other[0]) for copy, end in times[3].items()
    )
