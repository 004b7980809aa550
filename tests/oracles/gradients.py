"""The backward part of a graph, gradient by gradient."""

from dataclasses import dataclass

from tests.oracles.plain import plain

PARAMETER = 1


@dataclass(frozen=True)
class Gradient:
    """One node of the backward part, which makes one value of the same name."""

    name: str
    reads: list[str]  # names of values
    memory: int
    compute: int
    workspace: int
    forward_of: int
    residents: list[int]
    output: bool


def derive(graph, factor=2, parameter_gradients=False, loss=None, keep_outputs=False):
    """All gradients in their order; `keep_outputs` only matters to `forward_outputs`."""
    g = plain(graph)
    seeds = seeded(g, loss)
    if not seeds:
        raise ValueError("nothing is seeded")
    active = active_values(g, seeds)
    terms = list(contributions(g, seeds, active, parameter_gradients))
    names = contribution_names(g, terms)
    reads = [contribution_reads(g, terms, names, active, i) for i in range(len(terms))]
    return [
        Gradient(
            name=names[i],
            reads=reads[i],
            memory=g.grad_memory[target] if kind == "value" else g.resident_memory[target],
            compute=share(g, terms, factor, i),
            workspace=0 if source == "loss" else g.grad_workspace[source],
            forward_of=g.producer[target] if kind == "value" else source,
            residents=[] if source == "loss" else g.resident_reads[source],
            output=not any(names[i] in row for row in reads),
        )
        for i, (kind, target, source) in enumerate(terms)
    ]


def forward_outputs(graph, loss=None, keep_outputs=False):
    """Forward values that stay outputs: those that are not seeded, or all."""
    g = plain(graph)
    return set(g.outputs) if keep_outputs else g.outputs - seeded(g, loss)


def seeded(g, loss):
    if loss is None:
        return {x for x in g.outputs if g.grad_memory[x] != -1}
    return {g.value_names.index(name) for name in loss}


def active_values(g, seeds):
    """Values with a gradient that leads to a loss."""
    active = set()
    for x in reversed(range(len(g.memory))):
        readers = [w for w in g.nodes if x in g.reads[w]]
        leads = x in seeds or any(y in active for w in readers for y in g.values[w])
        if leads and g.grad_memory[x] != -1:
            active.add(x)
    return active


def contributions(g, seeds, active, parameter_gradients):
    """(kind, target, source): what is added, in this order, to the gradient of which value or parameter."""
    begun = set()
    for w in reversed(g.nodes):
        for x in g.values[w]:
            if x in seeds - begun:
                yield "value", x, "loss"
        if not any(x in active for x in g.values[w]):
            continue
        for x in g.reads[w]:
            if x in seeds - begun:  # a sum starts with its seed
                begun.add(x)
                yield "value", x, "loss"
            if g.grad_memory[x] != -1:
                yield "value", x, w
        for p in sorted(g.resident_reads[w]):
            if parameter_gradients and g.resident_role[p] == PARAMETER:
                yield "parameter", p, w


def contribution_names(g, terms):
    """The last sum of x is grad(x), earlier ones say whose contribution came last."""
    names = []
    for i, (kind, target, source) in enumerate(terms):
        of = g.value_names[target] if kind == "value" else g.resident_names[target]
        later = any((kind, target) == term[:2] for term in terms[i + 1 :])
        by = source if source == "loss" else g.node_names[source]
        names.append(f"grad({of})@{by}" if later else f"grad({of})")
    return names


def contribution_reads(g, terms, names, active, i):
    """Gradients of what the reader made, what it saved, the sum so far."""
    kind, target, source = terms[i]
    if source == "loss":
        reads = [g.value_names[target]]
    else:
        reads = [f"grad({g.value_names[y]})" for y in g.values[source] if y in active]
        reads += [g.value_names[y] for y in g.saved[source]]
    earlier = [names[j] for j in range(i) if terms[j][:2] == (kind, target)]
    return list(dict.fromkeys(reads + earlier[-1:]))


def share(g, terms, factor, i):
    """The cost of the reader's gradient, split evenly over its nodes; the first takes what is left."""
    source = terms[i][2]
    if source == "loss":
        return 0
    total = g.grad_compute[source] if g.grad_compute[source] >= 0 else round(factor * g.compute[source])
    siblings = [j for j in range(len(terms)) if terms[j][2] == source]
    part = total // len(siblings)
    return total - part * (len(siblings) - 1) if i == siblings[0] else part
