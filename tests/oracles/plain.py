"""A graph as plain Python lists: the only place where the oracles meet arrays."""

import itertools
from dataclasses import dataclass


@dataclass(frozen=True)
class Plain:
    """Rows of ids and integers; absent rules for gradients are filled in with what their absence means."""

    values: list[list[int]]  # of each node
    reads: list[list[int]]  # values, of each node
    producer: list[int]  # of each value
    memory: list[int]
    compute: list[int]
    workspace: list[int]
    once: list[bool]
    outputs: set[int]
    forward_of: list[int] | None
    mark: list[int]
    resident_memory: list[int]
    resident_role: list[int]  # 0 input, 1 parameter, 2 state
    resident_reads: list[list[int]]  # residents, of each node
    resident_names: list[str]
    node_names: list[str]
    value_names: list[str]
    saved: list[list[int]]  # values that the gradient of each node reads
    grad_memory: list[int]
    grad_compute: list[int]
    grad_workspace: list[int]

    @property
    def nodes(self):
        return range(len(self.reads))

    def is_backward(self, node):
        return self.forward_of is not None and self.forward_of[node] != -1

    def owner(self, node):
        """The forward node with which a backward node runs; one of none runs as soon as what it reads is there."""
        if self.forward_of[node] != -2:
            return self.forward_of[node]
        read = self.predecessors(node)
        owners = [self.owner(u) for u in read if self.is_backward(u)]
        return min(owners) if owners else max(read, default=self.forward()[-1])

    def forward(self):
        return [v for v in self.nodes if not self.is_backward(v)]

    def backward(self):
        return [v for v in self.nodes if self.is_backward(v)]

    def predecessors(self, node):
        """Nodes that made what a node reads, in read order."""
        return [self.producer[x] for x in self.reads[node]]

    def needed(self):
        """Ancestors of outputs, the nodes that make them included."""
        found, todo = set(), [self.producer[x] for x in self.outputs]
        while todo:
            node = todo.pop()
            if node not in found:
                found.add(node)
                todo += self.predecessors(node)
        return found


def plain(graph):
    """The graph in lists; what is in lists already comes back as it is."""
    if isinstance(graph, Plain):
        return graph
    reads = rows(graph.read_indptr, graph.read_indices)
    ends = integers(graph.value_indptr)
    values = [list(range(ends[v], ends[v + 1])) for v in range(len(reads))]
    memory = integers(graph.memory)
    return Plain(
        values=values,
        reads=reads,
        producer=[v for v, own in enumerate(values) for _ in own],
        memory=memory,
        compute=integers(graph.compute),
        workspace=integers(graph.workspace),
        once=[bool(flag) for flag in graph.once],
        outputs={x for x, flag in enumerate(graph.output) if flag},
        forward_of=None if graph.forward_of is None else integers(graph.forward_of),
        mark=[0] * len(reads) if graph.mark is None else integers(graph.mark),
        **resident_rows(graph.resident, len(reads)),
        **names(graph.labels, values),
        **gradient_rows(graph.backward, reads, values, memory),
    )


def integers(array):
    return [int(number) for number in array]


def rows(indptr, indices):
    ends, ids = integers(indptr), integers(indices)
    return [ids[begin:end] for begin, end in itertools.pairwise(ends)]


def resident_rows(resident, n_nodes):
    if resident is None:
        return {
            "resident_memory": [],
            "resident_role": [],
            "resident_reads": [[] for _ in range(n_nodes)],
            "resident_names": [],
        }
    return {
        "resident_memory": integers(resident.memory),
        "resident_role": integers(resident.role),
        "resident_reads": rows(resident.read_indptr, resident.read_indices),
        "resident_names": list(resident.names),
    }


def names(labels, values):
    """A nameless node goes by its id; value k of several is `v:k`, the first has the bare name of its node."""
    nodes = [str(v) for v in range(len(values))] if labels.names is None else list(labels.names)
    found = [
        node if k == 0 else f"{node}:{k}" for node, own in zip(nodes, values, strict=True) for k in range(len(own))
    ]
    for value, name in labels.value_names.items():
        found[value] = name
    return {"node_names": nodes, "value_names": found}


def gradient_rows(backward, reads, values, memory):
    """Without rules a gradient reads all that its node read and made, and is as large as its value."""
    if backward is None:
        return {
            "saved": [sorted(read + own) for read, own in zip(reads, values, strict=True)],
            "grad_memory": list(memory),
            "grad_compute": [-1] * len(reads),
            "grad_workspace": [0] * len(reads),
        }
    return {
        "saved": rows(backward.saved_indptr, backward.saved_indices),
        "grad_memory": integers(backward.grad_memory),
        "grad_compute": integers(backward.grad_compute),
        "grad_workspace": integers(backward.grad_workspace),
    }
