"""Policies per block by hand: what eager PyTorch holds at every step, and all subsets of all blocks."""

from itertools import chain, combinations, product


def reads(graph, v):
    return graph.read_indices[graph.read_indptr[v] : graph.read_indptr[v + 1]].tolist()


def eager_run(graph, blocks, decisions, saved):
    """The peak in bytes and the cost of a policy; saved is a set of nodes. A byte costs a unit each way."""
    steps = [(v, None) for v in range(graph.n_nodes) if graph.needed[v] and graph.forward[v]]
    for v in range(graph.n_nodes):
        if not graph.needed[v] or graph.forward[v]:
            continue
        for b in reversed(range(len(decisions))):
            if blocks.trigger[b] == v and decisions[b] != "keep":
                steps += [(None, b)]  # the begin of the rerun
                steps += [
                    (int(u), b)
                    for u in blocks.members[b]
                    if u < blocks.rerun_end[b] and u not in saved and not graph.once[u]
                ]
        steps.append((v, None))
    tensors = []  # [bytes, first step, last step]
    newest, first = {}, {}
    copied = 0
    for step, (v, b) in enumerate(steps):
        if v is None:
            if decisions[b] == "offload":
                release = steps.index((int(blocks.release[b]), None))
                for x in away(graph, blocks, b, decisions):
                    newest[x] = len(tensors)
                    tensors.append([int(graph.memory[x]), step, release])
                    copied += 2 * int(graph.memory[x]) * graph.labels.compute_scale
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
        if decision == "keep" or blocks.trigger[b] < 0:
            continue
        release = steps.index((int(blocks.release[b]), None))
        gone = away(graph, blocks, b, decisions) if decision == "offload" else set()
        for x in set(blocks.inputs[b].tolist()) - gone:
            tensors[first[x]][2] = max(tensors[first[x]][2], release)
        rerun = [step for step, (_, of) in enumerate(steps) if of == b]  # its begin, then its runs
        for u in blocks.members[b].tolist():
            if u in saved or graph.once[u]:
                if u >= blocks.rerun_end[b]:
                    until = release
                else:  # it waits in the cache until the rerun comes to its place
                    until = [step for step in rerun if steps[step][0] is None or steps[step][0] < u][-1]
                for x in graph.values(u):
                    tensors[first[x]][2] = max(tensors[first[x]][2], until)
    cost = sum(int(graph.compute[v]) for v, b in steps if b is not None and v is not None)
    live = [
        sum(size for size, begin, end in tensors if begin <= step <= end) + int(graph.workspace[v])
        for step, (v, _) in enumerate(steps)
        if v is not None
    ]
    return max(live), cost + copied


def away(graph, blocks, b, decisions):
    """Inputs of a block that leave: no other block takes them, and autograd has them for no gradient but reruns'."""
    others = {x for c, inputs in enumerate(blocks.inputs) if c != b for x in inputs.tolist()}
    for v in range(graph.n_nodes):
        if graph.needed[v] and not graph.forward[v]:
            homes = [c for c, members in enumerate(blocks.members) if graph.owner[v] in members]
            if not any(decisions[c] != "keep" for c in homes):
                others |= set(reads(graph, v))
    return {x for x in blocks.inputs[b].tolist() if x not in others and not graph.output[x] and graph.memory[x]}


def all_policies(graph, blocks, link=False, host=None):
    """Decisions and saved sets of every policy that the law of draws and the bytes of the host allow."""
    choices = []
    draws = set(blocks.draws.tolist())
    for b, members in enumerate(blocks.members):
        found = [("keep", frozenset())]
        if blocks.trigger[b] >= 0 and b not in blocks.refusals:
            free = [v for v in members.tolist() if v not in blocks.fixed and v < blocks.rerun_end[b]]
            for chosen in chain.from_iterable(combinations(free, r) for r in range(len(free) + 1)):
                drawn = [v in chosen for v in free if v in draws]
                if drawn == sorted(drawn):
                    found.append(("recompute", frozenset(chosen)))
                    found += [("offload", frozenset(chosen))] if link else []
        choices.append(found)
    for policy in product(*choices):
        decisions = [decision for decision, _ in policy]
        gone = [away(graph, blocks, b, decisions) for b, decision in enumerate(decisions) if decision == "offload"]
        if host is not None and sum(int(graph.memory[x]) for x in set().union(*gone)) > host:
            continue
        yield decisions, frozenset().union(*(chosen for _, chosen in policy))


def frontier(graph, blocks, run=eager_run, link=False, host=None):
    """Peaks and costs of all policies that no other dominates, the lowest peak first."""
    best = []
    for peak, cost in sorted(run(graph, blocks, *policy) for policy in all_policies(graph, blocks, link, host)):
        if not best or cost < best[-1][1]:
            best.append((peak, cost))
    return best
