"""Policies per block by hand: what eager PyTorch holds at every step, and all subsets of all blocks."""

from itertools import chain, combinations, product


def reads(graph, v):
    return graph.read_indices[graph.read_indptr[v] : graph.read_indptr[v + 1]].tolist()


def eager_run(graph, blocks, decisions, saved):
    """The peak in bytes and the cost of a policy; saved is a set of nodes."""
    steps = [(v, None) for v in range(graph.n_nodes) if graph.needed[v] and graph.forward[v]]
    block_of = {int(v): b for b, members in enumerate(blocks.members) for v in members}
    for v in range(graph.n_nodes):
        if not graph.needed[v] or graph.forward[v]:
            continue
        for b in reversed(range(len(decisions))):
            if blocks.trigger[b] == v and decisions[b] == "recompute":
                steps += [
                    (int(u), b)
                    for u in blocks.members[b]
                    if u < blocks.rerun_end[b] and u not in saved and not graph.once[u]
                ] + [(None, b)]  # the end of the rerun
        steps.append((v, None))
    tensors = []  # [bytes, first step, last step]
    newest, first = {}, {}
    for step, (v, _) in enumerate(steps):
        if v is None:
            continue
        for x in reads(graph, v):
            tensors[newest[x]][2] = step
        for x in graph.values(v):
            if x not in newest or not graph.output[x]:
                newest[x] = len(tensors)
            first.setdefault(x, len(tensors))
            tensors.append([int(graph.memory[x]), step, step])
    last_step = len(steps) - 1
    for x, i in first.items():
        if graph.output[x]:
            tensors[i][2] = last_step
    for b, decision in enumerate(decisions):
        if decision != "recompute" or blocks.trigger[b] < 0:
            continue
        release = steps.index((int(blocks.release[b]), None))
        for x in blocks.inputs[b].tolist():
            tensors[first[x]][2] = max(tensors[first[x]][2], release)
        rerun = [step for step, (_, of) in enumerate(steps) if of == b]
        for u in blocks.members[b].tolist():
            if u in saved or graph.once[u]:
                if u >= blocks.rerun_end[b]:
                    until = release
                else:  # it waits in the cache until the rerun comes to its place
                    ahead = [step for step in rerun if steps[step][0] is not None and steps[step][0] < u]
                    until = ahead[-1] if ahead else rerun[0] - 1
                for x in graph.values(u):
                    tensors[first[x]][2] = max(tensors[first[x]][2], until)
    cost = sum(int(graph.compute[v]) for v, b in steps if b is not None and v is not None)
    live = [
        sum(size for size, begin, end in tensors if begin <= step <= end) + int(graph.workspace[v])
        for step, (v, _) in enumerate(steps)
        if v is not None
    ]
    assert block_of
    return max(live), cost


def all_policies(graph, blocks):
    """Decisions and saved sets of every policy that the law of draws allows."""
    choices = []
    draws = set(blocks.draws.tolist())
    for b, members in enumerate(blocks.members):
        found = [("keep", frozenset())]
        if blocks.trigger[b] >= 0:
            free = [v for v in members.tolist() if v not in blocks.fixed and v < blocks.rerun_end[b]]
            for chosen in chain.from_iterable(combinations(free, r) for r in range(len(free) + 1)):
                drawn = [v in chosen for v in free if v in draws]
                if drawn == sorted(drawn):
                    found.append(("recompute", frozenset(chosen)))
        choices.append(found)
    for policy in product(*choices):
        yield [decision for decision, _ in policy], frozenset().union(*(chosen for _, chosen in policy))


def frontier(graph, blocks, run=eager_run):
    """Peaks and costs of all policies that no other dominates, the lowest peak first."""
    best = []
    for peak, cost in sorted(run(graph, blocks, *policy) for policy in all_policies(graph, blocks)):
        if not best or cost < best[-1][1]:
            best.append((peak, cost))
    return best
