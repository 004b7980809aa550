"""`ComputationGraph`, the input of every algorithm."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import GraphError
from remat_algos.hooks import html
from remat_algos.ir.arrays import (
    LARGEST_SUM,
    Bool,
    Int8,
    Int32,
    Int64,
    PerName,
    by_fields,
    check_indptr,
    check_place,
    check_sizes,
    costs,
    frozen,
    numbers,
    row,
    row_of,
    sealed,
    sizes,
    whole,
    wrong_length,
)
from remat_algos.ir.parts import (
    KEEP,
    RECOMPUTE,
    Backward,
    Derivation,
    Labels,
    Resident,
    check_labels,
    check_saved,
    plain_labels,
)
from remat_algos.ir.tables import (
    NAMED_AMOUNTS,
    Tables,
    are_topological,
    assemble,
    checked_pairs,
    in_order,
    named_tables,
    node_ids,
    rows_of_pairs,
    unread_first_values,
)
from remat_algos.kernels.graph import GraphArrays, check_reads, depths, needed_nodes, predecessor_rows, transpose_rows
from remat_algos.text.amounts import cost_of, size_of
from remat_algos.wording import counted, did_you_mean, format_bytes, one_line, spelled


@dataclass(frozen=True, slots=True, eq=False)
class ComputationGraph:
    """A directed acyclic graph of nodes and values, with bytes and costs, in CSR arrays.

    Ids are topological: a node reads only values of nodes with smaller ids. Running nodes once in id order is the run
    without rematerialization. Node v computes the values `value_indptr[v]:value_indptr[v + 1]`.

    Create graphs with `from_edges`, `from_arrays` or `remat_algos.read_graph`.

    Parameters
    ----------
    value_indptr : int64[n + 1]
        CSR pointers; every node has at least one value.
    read_indptr : int64[n + 1]
    read_indices : int32[k]
        Row v contains the values that node v reads, without duplicates, in argument order.
    memory : int64[n_values]
        Bytes of each value.
    compute : int64[n]
        Cost of one run of each node, in the unit given by `labels`.
    workspace : int64[n]
        Scratch bytes that are live while the node runs.
    once : bool[n]
        True if the node must not run a second time.
    output : bool[n_values]
        True if the value is live from the first run of its node to the end.
    forward_of : int32[n], optional
        The forward node of each gradient. It is -1 for forward nodes, and -2 for other backward nodes, such as sums of
        gradients of several nodes.
    backward : Backward, optional
        Gradients, for `differentiate`. By default, they read all values that their node reads or computes.
    resident : Resident, optional
        Inputs, parameters and states.
    mark : int8[n], optional
        1 keep, 2 recompute, 0 none.
    derivation : Derivation, optional
        Set by `differentiate`.
    labels : Labels
        Names and units.

    Raises
    ------
    GraphError
        If a rule is violated; the error names the rule and the node or value.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)], memory=[4, 2, 1])
    >>> graph.n_nodes, graph.reads(2), graph.output.tolist()
    (3, [0, 1], [False, False, True])
    """

    value_indptr: Int64
    read_indptr: Int64
    read_indices: Int32
    memory: Int64
    compute: Int64
    workspace: Int64
    once: Bool
    output: Bool
    forward_of: Int32 | None = None
    backward: Backward | None = None
    resident: Resident | None = None
    mark: Int8 | None = None
    derivation: Derivation | None = None
    labels: Labels = field(default_factory=Labels)
    _derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    _repr_html_ = html

    def __repr__(self) -> str:
        forward = int(self.forward.sum())
        parts = f" ({forward:,} forward, {self.n_nodes - forward:,} backward)" if self.is_training else ""
        return one_line(
            self,
            counted(self.n_nodes, "node") + parts,
            "" if self.single_valued else counted(self.n_values, "value"),
            counted(self.read_indices.size, "read"),
            format_bytes(int(self.memory.sum())),
            f"{format_bytes(self.resident_memory)} resident" if self.resident is not None else "",
        )

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        for name, dtype in (
            ("value_indptr", np.int64),
            ("read_indptr", np.int64),
            ("read_indices", np.int32),
            ("memory", np.int64),
            ("compute", np.int64),
            ("workspace", np.int64),
            ("once", np.bool_),
            ("output", np.bool_),
        ):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype, name))
        if self.forward_of is not None:
            forward_of = frozen(self.forward_of, np.int32, "forward_of", self.n_nodes, "node")
            object.__setattr__(self, "forward_of", None if (forward_of == -1).all() else forward_of)
        if self.mark is not None:
            mark = frozen(self.mark, np.int8, "mark", self.n_nodes, "node")
            object.__setattr__(self, "mark", mark if mark.any() else None)
        for name, kind in (("backward", Backward), ("resident", Resident), ("derivation", Derivation)):
            part = getattr(self, name)
            if part is not None:
                check_kind(part, kind, name)
        if self.resident is not None and not self.resident.names:
            object.__setattr__(self, "resident", None)
        check_kind(self.labels, Labels, "labels")
        object.__setattr__(self, "labels", plain_labels(self.labels, self.value_indptr))
        _check_arrays(self)
        _check_reads(self)
        _check_parts(self)
        check_labels(self.labels, self.value_indptr, self.resident_names)

    @classmethod
    def from_arrays(
        cls,
        *,
        read_indptr: ArrayLike,
        read_indices: ArrayLike,
        memory: PerName = 1,
        compute: PerName = 1,
        workspace: PerName = 0,
        value_indptr: ArrayLike | None = None,
        once: PerName | None = None,
        output: PerName | None = None,
        forward_of: ArrayLike | None = None,
        backward: Backward | None = None,
        resident: Resident | None = None,
        mark: PerName | None = None,
        derivation: Derivation | None = None,
        labels: Labels | None = None,
    ) -> "ComputationGraph":
        """Create a graph from arrays with topological ids; scalars apply to all nodes or values.

        Sizes and costs are read as in files (docs/formats.md): 120.5, "4MiB". If `compute` has decimals, all costs are
        scaled, including those of gradients. Mappings, and arrays with an index of names such as a pandas Series, are
        matched by the names in `labels`: value names for `memory` and `output`, node names otherwise. By default each
        node has one value, and the first value of a node is an output if all values of the node are unread. See the
        class for shapes and units.

        Examples
        --------
        >>> ComputationGraph.from_arrays(read_indptr=[0, 0, 1], read_indices=[0], memory=[8, 4]).n_nodes
        2
        """
        indptr = frozen(read_indptr, np.int64, "read_indptr")
        indices = frozen(read_indices, np.int32, "read_indices")
        n = max(indptr.shape[0] - 1, 0)
        values = frozen(np.arange(n + 1) if value_indptr is None else value_indptr, np.int64, "value_indptr", n + 1)
        n_values = int(values[-1]) if values.size else 0
        check_indptr(values, n, n_values, "value_indptr")
        if n_values >= 2**31:
            raise GraphError("the graph has {n_values:,} values; expected fewer than 2**31", n_values=n_values)
        labels = Labels() if labels is None else labels
        check_kind(labels, Labels, "labels")
        of_nodes, of_values = partial(labels.of_nodes, n), partial(labels.of_values, values)
        memory, output = (in_order(*pair, of_values) for pair in (("memory", memory), ("output", output)))
        per_node = {"compute": compute, "workspace": workspace, "once": once, "mark": mark}
        compute, workspace, once, mark = (in_order(*pair, of_nodes) for pair in per_node.items())
        amounts, scale = costs(compute, "compute", n, "node")
        if scale != 1:
            labels, backward = _scaled(labels, backward, scale)
        if output is None:
            output = unread_first_values(values, indices)
        return cls(
            value_indptr=values,
            read_indptr=indptr,
            read_indices=indices,
            memory=sizes(memory, "memory", n_values, "value"),
            compute=amounts,
            workspace=sizes(workspace, "workspace", n, "node"),
            once=frozen(np.zeros(n, bool) if once is None else once, np.bool_, "once", n, "node"),  # type: ignore[arg-type]
            output=frozen(output, np.bool_, "output", n_values, "value"),  # type: ignore[arg-type]
            forward_of=forward_of,  # type: ignore[arg-type]  # `__post_init__` converts
            backward=backward,
            resident=resident,
            mark=mark,  # type: ignore[arg-type]
            derivation=derivation,
            labels=labels,
        )

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[Any, Any]] | ArrayLike,
        memory: PerName = 1,
        compute: PerName = 1,
        *,
        n_nodes: int | None = None,
        **arrays: Any,
    ) -> "ComputationGraph":
        """Create a graph from pairs (u, v), where v reads u. Every node has one value.

        Topological ids 0 to n - 1 are kept. Other nodes are renumbered in topological order, by smallest id or first
        appearance of the name; `labels` then contains the original id or name of each node. Repeated pairs count once.

        Parameters
        ----------
        edges : pairs of int or str
        memory, compute : scalar, array or mapping
            Bytes and cost of each node, read as in files: 120.5, "4MiB". Arrays are indexed by id or, for names, by
            order of appearance. Mappings, and arrays with an index of names such as a pandas Series, have an entry for
            every node by id or name.
        n_nodes : int, optional
            Number of nodes; needed if the nodes with the largest ids have no edges. By default, it is the length of an
            array argument or, without arrays, the number of nodes in `edges`.
        **arrays
            Further arguments of `from_arrays`. If nodes have names or are renumbered, only `workspace`, `once`,
            `output` and `mark` are allowed.

        Examples
        --------
        >>> sizes = {"conv": 8, "relu": 8, "loss": 1}
        >>> graph = ComputationGraph.from_edges([("conv", "relu"), ("relu", "loss")], memory=sizes)
        >>> graph.labels.names, graph.memory.tolist()
        (('conv', 'relu', 'loss'), [8, 8, 1])
        >>> ComputationGraph.from_edges([(7, 3), (3, 5)]).labels.names
        ('7', '3', '5')
        """
        pairs = checked_pairs(edges)
        columns = {"memory": memory, "compute": compute, **arrays}
        ids = None
        if pairs.dtype.kind in "iu":
            ids = node_ids(pairs, n_nodes, columns)
            names = ids.tolist()
        elif n_nodes is not None:
            wrong = "n_nodes is {n_nodes}, but edges between names name all nodes; leave it out"
            raise GraphError(wrong, n_nodes=n_nodes)
        else:
            names = list(dict.fromkeys(str(name) for pair in pairs.tolist() for name in pair))
        columns = {
            what: in_order(what, entries, lambda: names) if what in NAMED_AMOUNTS else entries
            for what, entries in columns.items()
        }
        if ids is None or not are_topological(pairs, ids):
            return cls.from_tables(named_tables(pairs.tolist(), names, columns))
        indptr, indices = rows_of_pairs(pairs, ids.size)
        for what, read in (("memory", size_of), ("compute", cost_of)):
            columns[what] = numbers(columns[what], read, what, ids.size, "node")
        return cls.from_arrays(read_indptr=indptr, read_indices=indices, **columns)

    @classmethod
    @checked_arguments
    def from_tables(cls, tables: Tables) -> "ComputationGraph":
        """Create a graph from named rows. Ids are topological: the first row whose inputs have ids gets the next id."""
        arguments = assemble(tables)
        derivation = arguments.pop("derivation")
        return cls.from_arrays(**arguments, derivation=Derivation.of(derivation, tables.source) if derivation else None)

    def with_costs(
        self, memory: PerName | None = None, compute: PerName | None = None, workspace: PerName | None = None
    ) -> "ComputationGraph":
        """Return a copy of the graph with new sizes or costs, in the forms that `from_arrays` accepts.

        A gradient that has the size of its value gets the new size of the value. `compute` is in the integer unit of
        the graph: one `labels.compute_unit` divided by `labels.compute_scale`. Mappings need an entry for every value
        (`memory`) or node, by name.
        """
        labels, backward, n = self.labels, self.backward, self.n_nodes
        memory = in_order("memory", memory, self.value_names)
        compute, workspace = (
            in_order(*pair, self.node_names) for pair in (("compute", compute), ("workspace", workspace))
        )
        new_memory = self.memory if memory is None else sizes(memory, "memory", self.n_values, "value")
        new_compute, scale = (self.compute, 1) if compute is None else costs(compute, "compute", n, "node")
        if backward is not None and memory is not None:
            same = backward.grad_memory == self.memory
            backward = replace(backward, grad_memory=np.where(same, new_memory, backward.grad_memory))
        if scale != 1:
            labels, backward = _scaled(labels, backward, scale)
        return replace(
            self,
            memory=new_memory,
            compute=new_compute,
            workspace=self.workspace if workspace is None else sizes(workspace, "workspace", n, "node"),
            backward=backward,
            derivation=None,
            labels=labels,
        )

    @checked_arguments
    def refined(self, scale: int) -> "ComputationGraph":
        """Return the graph with its costs expressed in a unit that is `scale` times finer.

        Raise GraphError if the sum of the costs would reach 2**53.

        Examples
        --------
        >>> graph = ComputationGraph.from_edges([(0, 1)], compute=[3, 5]).refined(10)
        >>> graph.compute.tolist(), graph.labels.compute(80)
        ([30, 50], '8')
        """
        if scale == 1:
            return self

        def finer() -> ComputationGraph:
            labels, backward = _scaled(self.labels, self.backward, scale)
            return replace(self, compute=self.compute * scale, backward=backward, labels=labels)

        return derived(self, f"refined {scale}", finer)

    @property
    def arrays(self) -> GraphArrays:
        """The arrays of the graph, for kernels."""
        return derived(
            self,
            "arrays",
            lambda: GraphArrays(
                value_indptr=self.value_indptr,
                read_indptr=self.read_indptr,
                read_indices=self.read_indices,
                memory=self.memory,
                output=self.output.view(np.uint8),
                compute=self.compute,
                workspace=self.workspace,
                once=self.once.view(np.uint8),
                needed=self.needed.view(np.uint8),
                readers=self.readers,
            ),
        )

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return max(self.value_indptr.shape[0] - 1, 0)

    @property
    def n_values(self) -> int:
        """Number of values."""
        return int(self.memory.shape[0])

    @property
    def single_valued(self) -> bool:
        """True if every node has one value, so that values and nodes share their ids."""
        return self.n_values == self.n_nodes

    @property
    def is_training(self) -> bool:
        """True if the graph has a backward part."""
        return self.forward_of is not None

    @property
    def producer(self) -> Int32:
        """int32[n_values]: the node that computes each value."""
        return derived(self, "producer", lambda: row_of(self.value_indptr, np.int32))

    @property
    def readers(self) -> tuple[Int64, Int32]:
        """(int64[n_values + 1], int32[k]): nodes that read each value, ascending."""
        return derived(self, "readers", lambda: transpose_rows(self.read_indptr, self.read_indices, self.n_values))

    @property
    def predecessors(self) -> tuple[Int64, Int32]:
        """(int64[n + 1], int32[k]): nodes whose values each node reads."""
        return derived(
            self, "predecessors", lambda: predecessor_rows(self.read_indptr, self.read_indices, self.producer)
        )

    @property
    def successors(self) -> tuple[Int64, Int32]:
        """(int64[n + 1], int32[k]): nodes that read a value of each node, ascending."""
        return derived(self, "successors", lambda: transpose_rows(*self.predecessors, self.n_nodes))

    @property
    def needed(self) -> Bool:
        """bool[n]: nodes on which an output depends, and which therefore run."""
        return derived(
            self,
            "needed",
            lambda: needed_nodes(
                value_indptr=self.value_indptr,
                read_indptr=self.read_indptr,
                read_indices=self.read_indices,
                producer=self.producer,
                output=self.output.view(np.uint8),
            ).view(np.bool_),
        )

    @property
    def updates(self) -> Bool:
        """bool[n]: nodes that update a parameter or a state, and run after all other nodes that read it."""
        return derived(self, "updates", lambda: _updates(self))

    @property
    def forward(self) -> Bool:
        """bool[n]: nodes of the forward part."""
        return derived(
            self, "forward", lambda: np.ones(self.n_nodes, bool) if self.forward_of is None else self.forward_of == -1
        )

    @property
    def owner(self) -> Int32:
        """int32[n]: the forward node that owns each backward node; -1 for forward nodes.

        If `forward_of` is a node, it is the owner. Other backward nodes run as early as possible. If such a node reads
        backward nodes, its owner is the smallest of their owners. If it reads only forward nodes, its owner is
        the largest of them. If it reads no node, its owner is the last forward node.
        """
        return derived(self, "owner", lambda: _owners(self))

    @property
    def node_memory(self) -> Int64:
        """int64[n]: bytes of all values of each node."""
        return derived(
            self,
            "node_memory",
            lambda: np.diff(np.concatenate([[0], np.cumsum(self.memory)])[self.value_indptr]).astype(np.int64),
        )

    @property
    def depth(self) -> int:
        """Number of nodes on the longest path."""
        return int(depths(self.read_indptr, self.read_indices, self.producer).max(initial=0))

    @property
    def resident_memory(self) -> int:
        """Bytes of inputs, parameters and states."""
        return int(self.resident.memory.sum()) if self.resident is not None else 0

    @property
    def needed_compute(self) -> int:
        """Cost of running every needed node once."""
        return derived(self, "needed_compute", lambda: int(self.compute[self.needed].sum()))

    @property
    def hash(self) -> str:
        """SHA-256 of arrays and names; independent of the file format."""
        return derived(self, "hash", lambda: _hash(self))

    @property
    def source_hash(self) -> str:
        """The hash of the graph before differentiation."""
        return self.derivation.source_hash if self.derivation is not None else self.hash

    def reads(self, node: int) -> list[int]:
        """Return the values that a node reads, in argument order."""
        return row(self.read_indptr, self.read_indices, node, "node")

    def values(self, node: int) -> range:
        """Return the values that a node computes."""
        node = check_place(node, self.n_nodes, "node")
        return range(int(self.value_indptr[node]), int(self.value_indptr[node + 1]))

    def value_name(self, value: int) -> str:
        """Return the name of a value; by default the name of its node, followed by `:k` for value k > 0 of the node."""
        value = check_place(value, self.n_values, "value")
        node = int(self.producer[value])
        return self.labels.value(value, node, value - int(self.value_indptr[node]))

    def node_names(self) -> list[str]:
        """Return the names of all nodes in id order."""
        return self.labels.of_nodes(self.n_nodes)

    def value_names(self) -> list[str]:
        """Return the names of all values in id order."""
        return self.labels.of_values(self.value_indptr)

    @property
    def resident_names(self) -> tuple[str, ...]:
        """Names of inputs, parameters and states."""
        return self.resident.names if self.resident is not None else ()

    def node_id(self, name: str | int) -> int:
        """Return the id of the node called `name`. Raise GraphError if it does not exist."""
        ids: dict[str, int] = derived(self, "node_ids", lambda: {name: v for v, name in enumerate(self.node_names())})
        name = _as_name(name)
        if name not in ids:
            wrong = "unknown node {name!r}{did_you_mean!w}"
            raise GraphError(wrong, name=name, did_you_mean=did_you_mean(name, ids))
        return ids[name]

    def value_id(self, name: str | int) -> int:
        """Return the id of the value `name`, or of the base of the view `name`. Raise GraphError if neither exists."""
        ids: dict[str, int] = derived(self, "value_ids", lambda: {name: x for x, name in enumerate(self.value_names())})
        name = _as_name(name)
        name = self.labels.views.get(name, name)
        if name in ids:
            return ids[name]
        return int(self.value_indptr[self.node_id(name)])


def _as_name(name: Any) -> str:
    return name if isinstance(name, str) else spelled(whole(name, "the name or number of a node"))


def check_graph(graph: Any) -> None:
    check_kind(graph, ComputationGraph, "graph")


def derived(graph: ComputationGraph, name: str, make: Callable[[], Any]) -> Any:
    """Return an attribute of a graph, computed on first use; arrays are made read-only."""
    return remembered(graph._derived, name, make)


def remembered(kept: dict[str, Any], name: str, make: Callable[[], Any]) -> Any:
    """Return the entry `name` of `kept`, computed by `make` on first use; arrays are made read-only."""
    if name not in kept:
        result = make()
        if type(result) is tuple:
            result = tuple(map(sealed, result))
        kept[name] = sealed(result) if isinstance(result, np.ndarray) else result
    return kept[name]


def _scaled(labels: Labels, backward: Backward | None, scale: int) -> tuple[Labels, Backward | None]:
    labels = replace(labels, compute_scale=labels.compute_scale * scale)
    if backward is not None:
        costs = np.minimum(backward.grad_compute, LARGEST_SUM // scale + 1)  # clipped, to avoid overflow
        backward = replace(backward, grad_compute=np.where(costs < 0, costs, costs * scale))
    return labels, backward


def _owners(graph: ComputationGraph) -> Int32:
    if graph.forward_of is None:
        return np.full(graph.n_nodes, -1, np.int32)
    owner, last = graph.forward_of.copy(), int(np.flatnonzero(graph.forward)[-1])
    for v in np.flatnonzero(owner == -2).tolist():
        read = graph.producer[graph.read_indices[graph.read_indptr[v] : graph.read_indptr[v + 1]]]
        of_gradients = owner[read][owner[read] >= 0]
        owner[v] = of_gradients.min() if of_gradients.size else read.max(initial=-1) if read.size else last
    return owner


def _updates(graph: ComputationGraph) -> Bool:
    """Mark updates: backward `once` nodes that read a parameter or state and compute only empty, unread values."""
    silent = graph.output & (graph.memory == 0)
    silent[graph.read_indices] = False
    loud = np.bincount(graph.producer[~silent], minlength=graph.n_nodes) > 0
    update = graph.once & ~graph.forward & ~loud
    if graph.resident is None or not update.any():
        return np.zeros(graph.n_nodes, bool)
    touching = np.zeros(graph.n_nodes, bool)
    touching[graph.resident.changeable_reads()[0]] = True
    return update & touching


def changeable_reads(graph: ComputationGraph) -> tuple[Int32, Int32]:
    """Return pairs of a node and a parameter or state that it reads, as (int32[k], int32[k])."""
    if graph.resident is None:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    return graph.resident.changeable_reads()


def runs_once(graph: ComputationGraph) -> Bool:
    """Return bool[n]: True for `once` nodes and nodes marked keep, which may run only once."""
    return graph.once | (graph.mark == KEEP) if graph.mark is not None else graph.once


def updates_and_readers(graph: ComputationGraph) -> tuple[Int32, Int32]:
    """Return pairs of an update and a node that must not run after it, as (int32[k], int32[k])."""
    pairs = set[tuple[int, int]]()
    if graph.updates.any():
        readers: dict[int, list[int]] = {}
        for v, parameter in zip(*map(np.ndarray.tolist, changeable_reads(graph)), strict=True):
            readers.setdefault(parameter, []).append(v)
        for group in readers.values():
            pairs |= {(u, v) for u in group if graph.updates[u] for v in group if not graph.updates[v]}
    update, reader = np.array(sorted(pairs), np.int32).reshape(-1, 2).T
    return update, reader


def _hash(graph: ComputationGraph) -> str:
    digest = hashlib.sha256(b"remat-graph 1")

    def add(name: str, content: Any) -> None:
        data = content.tobytes() if isinstance(content, np.ndarray) else "\0".join(content or ()).encode()
        digest.update(f"\0{name} {len(data)}\0".encode() + data)

    for name in ("value_indptr", "read_indptr", "read_indices", "memory", "compute", "workspace", "once", "output"):
        add(name, getattr(graph, name))
    add("forward_of", graph.forward_of)
    add("mark", graph.mark)
    for part, names in (
        (graph.backward, ("saved_indptr", "saved_indices", "grad_memory", "grad_compute", "grad_workspace")),
        (graph.resident, ("memory", "role", "read_indptr", "read_indices", "names")),
    ):
        for name in names if part is not None else ():
            add(f"{type(part).__name__}.{name}", getattr(part, name))
    add("names", graph.labels.names)
    add("value_names", [f"{x} {name}" for x, name in sorted(graph.labels.value_names.items())])
    return digest.hexdigest()


def _check_arrays(graph: ComputationGraph) -> None:
    n, n_values = graph.n_nodes, graph.n_values
    for name, size in (("compute", n), ("workspace", n), ("once", n), ("output", n_values)):
        if getattr(graph, name).shape[0] != size:
            raise wrong_length(name, getattr(graph, name).shape[0], size, "value" if name == "output" else "node")
    for what, entries in (("names", graph.labels.names), ("ops", graph.labels.ops)):
        if entries is not None and len(entries) != n:
            raise wrong_length(what, len(entries), n, "node")
    check_indptr(graph.value_indptr, n, n_values, "value_indptr")
    if n and np.diff(graph.value_indptr).min() < 1:
        wrong = "node {node} has no value; give it one of 0 bytes"
        raise GraphError(wrong, node=np.argmin(np.diff(graph.value_indptr)))
    check_indptr(graph.read_indptr, n, graph.read_indices.shape[0], "read_indptr")
    for name in ("memory", "compute", "workspace"):
        check_sizes(getattr(graph, name), name)
    if n and not graph.output.any():
        raise GraphError("no value is an output, so no node needs to run; mark at least one value as an output")


def _check_reads(graph: ComputationGraph) -> None:
    code, node, value = check_reads(graph.read_indptr, graph.read_indices, graph.producer)
    if code == 1:
        wrong = "node {node} reads value {value}, expected values from 0 to {last}"
        raise GraphError(wrong, node=graph.labels[node], value=value, last=graph.n_values - 1)
    if code == 2:
        raise GraphError("node {node} reads value {value} twice; list it once", node=graph.labels[node], value=value)
    if code == 3:
        wrong = "edge ({source}, {node}) goes backwards; number the nodes topologically, as from_edges does"
        raise GraphError(wrong, source=graph.producer[value], node=node)


def _check_parts(graph: ComputationGraph) -> None:
    if graph.mark is not None:
        if graph.n_nodes and not 0 <= graph.mark.min() <= graph.mark.max() <= RECOMPUTE:
            at = int(np.argmax((graph.mark < 0) | (graph.mark > RECOMPUTE)))
            wrong = "node {node!r} has mark {mark}, expected 0, 1 (keep) or 2 (recompute)"
            raise GraphError(wrong, node=graph.labels[at], mark=graph.mark[at])
        contradiction = np.flatnonzero(graph.once & (graph.mark == RECOMPUTE))
        if contradiction.size:
            wrong = "node {node} is marked once and recompute; remove one mark"
            raise GraphError(wrong, node=graph.labels[int(contradiction[0])])
    for part in (graph.backward, graph.resident):
        if part is None:
            continue
        rows = part.grad_compute.shape[0] if isinstance(part, Backward) else part.read_indptr.shape[0] - 1
        if rows != graph.n_nodes:
            wrong = "{part} has {rows:row}, expected {n_nodes} (one per node)"
            raise GraphError(wrong, part=type(part).__name__, rows=rows, n_nodes=graph.n_nodes)
    if graph.backward is not None:
        if graph.forward_of is not None:
            raise GraphError("a graph with a backward part cannot be differentiated again; leave `backward` out")
        check_saved(graph.backward, graph.read_indptr, graph.read_indices, graph.producer, graph.labels)
    if graph.forward_of is not None:
        _check_forward_of(graph, graph.forward_of)


def _check_forward_of(graph: ComputationGraph, forward_of: Int32) -> None:
    backward = forward_of != -1
    outside = (forward_of < -2) | (forward_of >= graph.n_nodes)
    if not outside.any():
        # An entry of -1 would index the last node, so it is masked.
        outside = (forward_of >= 0) & backward[forward_of]
    if outside.any():
        at = int(np.argmax(outside))
        wrong = (
            "forward_of[{at}] is {forward_of}, expected the id of a forward node, -1 for a forward node itself, or -2 "
            "for a backward node without an owner"
        )
        raise GraphError(wrong, at=at, forward_of=forward_of[at])
    if backward.all():
        raise GraphError("no node is in the forward part; omit forward_of")
    from_backward = backward[graph.producer][graph.read_indices]
    reader = ~backward[row_of(graph.read_indptr)]
    if (from_backward & reader).any():
        at = int(np.argmax(from_backward & reader))
        node = int(np.searchsorted(graph.read_indptr, at, side="right")) - 1
        raise GraphError("node {node} of the forward part reads a value of the backward part", node=graph.labels[node])
