"""The backward part of a graph: one node per pair of a reader and a value that it reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import LARGEST_SUM, Bool
from remat_algos.ir.backward import Backward
from remat_algos.ir.graph import ComputationGraph, Derivation
from remat_algos.ir.labels import Labels
from remat_algos.ir.resident import ROLES, Resident

PARAMETER = ROLES.index("parameter")


def differentiate(
    graph: ComputationGraph,
    *,
    factor: float = 2,
    parameter_gradients: bool = False,
    loss: str | Sequence[str] | None = None,
    keep_outputs: bool = False,
) -> ComputationGraph:
    """The graph with its backward part.

    For each node w from the last to the first, and each value x that w reads and that has a gradient, one node: it
    reads the gradients of w's values, what w saves, and the running sum of x's gradient, and gives the new sum. The
    last node of x is called `grad(x)`, earlier ones `grad(x)@w`. A seed of cost 0, which reads the value itself,
    begins at each loss. The outputs are then the gradients that nobody reads.

    Parameters
    ----------
    graph : ComputationGraph
        Without a backward part. Where it has no `backward`, gradients read all that their node reads and makes.
    factor : float
        Cost of a node's gradient, in times of its own (chen2016: about 2), split over the nodes that compute it.
    parameter_gradients : bool
        Whether residents of role `parameter` get gradients too; they are outputs.
    loss : str or sequence of str, optional
        Names of the values to differentiate; by default every output that has a gradient.
    keep_outputs : bool
        Hold on to seeded outputs; by default they may be freed.

    Returns
    -------
    ComputationGraph
        Ids of forward nodes and values are the same as before.

    Raises
    ------
    GraphError
        If there is a backward part already, or nothing to differentiate.

    Examples
    --------
    >>> chain = ComputationGraph.from_edges([("a", "b"), ("b", "c")])
    >>> differentiate(chain).labels.names
    ('a', 'b', 'c', 'grad(c)', 'grad(b)', 'grad(a)')
    """
    if graph.forward_of is not None:
        raise GraphError("the graph has a backward part already; differentiate the graph that it was made from")
    if not 0 <= factor < float("inf"):
        raise GraphError(f"factor is {factor}; give a number of 0 or more, such as 2")
    if isinstance(loss, str):
        loss = [loss]
    backward = graph.backward or everything_saved(graph)
    seeds = _seeds(graph, backward, loss)
    builder = _Builder(graph, backward, _active(graph, backward, seeds), seeds, factor, parameter_gradients)
    options = {
        "factor": factor,
        "parameter_gradients": parameter_gradients,
        "loss": list(loss) if loss is not None else None,
        "keep_outputs": keep_outputs,
    }
    output = graph.output if keep_outputs else graph.output & ~seeds
    return builder.graph(output, Derivation(graph.hash, options))


def everything_saved(graph: ComputationGraph) -> Backward:
    """Gradients that read all that their node reads and makes, as large as the values."""
    n = graph.n_nodes
    reads = np.repeat(np.arange(n), np.diff(graph.read_indptr))
    rows = np.concatenate([reads, graph.producer])
    saved = np.concatenate([graph.read_indices, np.arange(graph.n_values, dtype=np.int32)])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    nothing = np.full(n, -1, np.int64)
    return Backward(indptr, saved[np.argsort(rows, kind="stable")], graph.memory, nothing, np.zeros(n, np.int64))


def _seeds(graph: ComputationGraph, backward: Backward, loss: Sequence[str] | None) -> Bool:
    has_gradient = backward.grad_memory >= 0
    if loss is None:
        seeds = graph.output & has_gradient
        if not seeds.any():
            raise GraphError("no output has a gradient, so there is nothing to differentiate; name a loss")
        return seeds
    seeds = np.zeros(graph.n_values, bool)
    for name in loss:
        value = graph.value_id(name)
        if not has_gradient[value]:
            raise GraphError(f"{name!r} has no gradient, so it cannot be a loss")
        seeds[value] = True
    if not seeds.any():
        raise GraphError("no loss is named, so there is nothing to differentiate")
    return seeds


def _active(graph: ComputationGraph, backward: Backward, seeds: Bool) -> list[bool]:
    """Which values have a gradient that leads to a loss."""
    has_gradient = (backward.grad_memory >= 0).tolist()
    active: list[bool] = seeds.tolist()
    for w in range(graph.n_nodes - 1, -1, -1):
        if any(active[x] for x in graph.values(w)):
            for x in graph.reads(w):
                active[x] = has_gradient[x]
    return active


@dataclass(slots=True)
class _Gradient:
    """A node of the backward part, before it has a number among values."""

    of: str
    source: str
    reads: list[int]
    memory: int
    forward_of: int
    compute: int = 0
    workspace: int = 0
    residents: list[int] = field(default_factory=list)
    op: str = ""


class _Builder:
    def __init__(
        self,
        graph: ComputationGraph,
        backward: Backward,
        active: list[bool],
        seeds: Bool,
        factor: float,
        parameter_gradients: bool,
    ) -> None:
        self.source, self.backward, self.active = graph, backward, active
        self.nodes: list[_Gradient] = []
        self.sum_of_value: dict[int, int] = {}
        self.sum_of_parameter: dict[int, int] = {}
        self.seeds = seeds.tolist()
        self.factor = factor
        self.parameter_gradients = parameter_gradients
        for w in range(graph.n_nodes - 1, -1, -1):
            self._differentiate_node(w)

    def _differentiate_node(self, w: int) -> None:
        graph = self.source
        for x in graph.values(w):
            self._seed(x)
        incoming = [self.sum_of_value[x] for x in graph.values(w) if self.active[x]]
        if not incoming:
            return
        base = [*incoming, *self.backward.saved(w)]
        residents = graph.resident.reads(w) if graph.resident is not None else []
        nodes: list[_Gradient] = []

        def add(of: str, memory: int, owner: int, sums: dict[int, int], key: int) -> None:
            nodes.append(_Gradient(of, graph.labels[w], list(base), memory, owner, 0, self._workspace(w), residents))
            nodes[-1].op = f"grad({graph.labels.op(w)})" if graph.labels.op(w) else ""
            self._add(nodes[-1], sums, key)

        for x in graph.reads(w):
            if self.active[x]:
                self._seed(x)
                add(graph.value_name(x), self._size(x), int(graph.producer[x]), self.sum_of_value, x)
        if self.parameter_gradients and graph.resident is not None:
            for r in sorted(residents):
                if graph.resident.role[r] == PARAMETER:
                    add(graph.resident.names[r], int(graph.resident.memory[r]), w, self.sum_of_parameter, r)
        self._share_cost(w, nodes)

    def _seed(self, x: int) -> None:
        """The sum of a loss begins with its seed: before its first reader's share, or, unread, in its node's turn."""
        if self.seeds[x] and x not in self.sum_of_value:
            graph = self.source
            seed = _Gradient(graph.value_name(x), "loss", [x], self._size(x), int(graph.producer[x]))
            self._add(seed, self.sum_of_value, x)

    def _add(self, node: _Gradient, sums: dict[int, int], key: int) -> None:
        if key in sums:
            node.reads.append(sums[key])
        node.reads = list(dict.fromkeys(node.reads))
        sums[key] = self.source.n_values + len(self.nodes)
        self.nodes.append(node)

    def _size(self, value: int) -> int:
        return int(self.backward.grad_memory[value])

    def _workspace(self, w: int) -> int:
        return int(self.backward.grad_workspace[w])

    def _share_cost(self, w: int, nodes: list[_Gradient]) -> None:
        if nodes:
            given = int(self.backward.grad_compute[w])
            cost = given if given >= 0 else self.factor * int(self.source.compute[w])
            if cost >= LARGEST_SUM:
                raise GraphError(f"factor {self.factor} takes the sum of compute past 2**53; give a smaller one")
            share, rest = divmod(round(cost), len(nodes))
            for node in nodes:
                node.compute = share
            nodes[0].compute += rest

    def _names(self) -> list[str]:
        """`grad(x)` for the last node of x, `grad(x)@w` for the others."""
        last = {node.of: i for i, node in enumerate(self.nodes)}
        names = [
            f"grad({node.of})" if last[node.of] == i else f"grad({node.of})@{node.source}"
            for i, node in enumerate(self.nodes)
        ]
        taken = {self.source.labels[v] for v in range(self.source.n_nodes)}
        for name, node in zip(names, self.nodes, strict=True):
            if name in taken:
                raise GraphError(
                    f"the gradient {name} clashes with another name; rename {node.source!r} or {node.of!r}"
                )
            taken.add(name)
        return names

    def graph(self, kept_output: Bool, derivation: Derivation) -> ComputationGraph:
        graph, nodes = self.source, self.nodes
        n_new = len(nodes)
        reads = np.array([x for node in nodes for x in node.reads], np.int32)
        unread = np.ones(n_new, bool)
        unread[reads[reads >= graph.n_values] - graph.n_values] = False
        labels = graph.labels
        return ComputationGraph(
            value_indptr=_longer(graph.value_indptr, np.ones(n_new, np.int64)),
            read_indptr=_longer(graph.read_indptr, [len(node.reads) for node in nodes]),
            read_indices=np.concatenate([graph.read_indices, reads]),
            memory=np.concatenate([graph.memory, np.array([node.memory for node in nodes], np.int64)]),
            compute=np.concatenate([graph.compute, np.array([node.compute for node in nodes], np.int64)]),
            workspace=np.concatenate([graph.workspace, np.array([node.workspace for node in nodes], np.int64)]),
            once=np.concatenate([graph.once, np.zeros(n_new, bool)]),
            output=np.concatenate([kept_output, unread]),
            forward_of=np.array([-1] * graph.n_nodes + [node.forward_of for node in nodes], np.int32),
            resident=self._resident(),
            mark=np.concatenate([graph.mark, np.zeros(n_new, np.int8)]) if graph.mark is not None else None,
            derivation=derivation,
            labels=Labels(
                names=(*(labels[v] for v in range(graph.n_nodes)), *self._names()),
                value_names=labels.value_names,
                ops=(*(labels.op(v) for v in range(graph.n_nodes)), *(node.op for node in nodes)),
                views=labels.views,
                compute_unit=labels.compute_unit,
                compute_scale=labels.compute_scale,
            ),
        )

    def _resident(self) -> Resident | None:
        resident = self.source.resident
        if resident is None:
            return None
        more = np.array([r for node in self.nodes for r in node.residents], np.int32)
        return Resident(
            resident.memory,
            resident.role,
            _longer(resident.read_indptr, [len(node.residents) for node in self.nodes]),
            np.concatenate([resident.read_indices, more]),
            resident.names,
        )


def _longer(indptr: np.ndarray, counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Row pointers with rows of these lengths added."""
    return np.concatenate([indptr, indptr[-1] + np.cumsum(np.asarray(counts, np.int64))])
