"""From a graph to the rows that text formats write."""

from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.resident import ROLES
from remat_algos.ir.tables import NodeRow, ResidentRow, Tables, ValueRow


def tables_from(graph: ComputationGraph) -> Tables:
    """The rows of a graph, in id order."""
    names = [graph.value_name(x) for x in range(graph.n_values)]
    backward, forward_of = graph.backward, graph.forward_of
    own_names, output, memory = graph.labels.value_names, graph.output.tolist(), graph.memory.tolist()
    values = [ValueRow(memory[x], own_names.get(x), output[x]) for x in range(graph.n_values)]
    nodes = [
        NodeRow(
            name=graph.labels[v],
            op=graph.labels.op(v),
            compute=int(graph.compute[v]),
            workspace=int(graph.workspace[v]),
            once=bool(graph.once[v]),
            mark=int(graph.mark[v]) if graph.mark is not None else 0,
            reads=[names[x] for x in graph.reads(v)],
            values=[values[x] for x in graph.values(v)],
            gradient_of=graph.labels[forward_of[v]] if forward_of is not None and forward_of[v] >= 0 else None,
            backward=forward_of is not None and bool(forward_of[v] == -2),
        )
        for v in range(graph.n_nodes)
    ]
    if backward is not None:
        for x, size in enumerate(backward.grad_memory.tolist()):
            values[x].grad_memory = None if size == memory[x] else size
        for v, node in enumerate(nodes):
            node.saved = [names[x] for x in backward.saved(v)]
            node.grad_compute = int(backward.grad_compute[v])
            node.grad_workspace = int(backward.grad_workspace[v])
    return Tables(
        nodes=nodes,
        residents=_resident_rows(graph),
        backward="present" if forward_of is not None else "none" if backward is None else "to come",
        views=graph.labels.views,
        compute_unit=graph.labels.compute_unit,
        compute_scale=graph.labels.compute_scale,
        derivation=graph.derivation.record() if graph.derivation is not None else None,
    )


def _resident_rows(graph: ComputationGraph) -> list[ResidentRow]:
    if graph.resident is None:
        return []
    rows = [
        ResidentRow(name, size, ROLES[role])
        for name, size, role in zip(
            graph.resident.names, graph.resident.memory.tolist(), graph.resident.role.tolist(), strict=True
        )
    ]
    for v in range(graph.n_nodes):
        for r in graph.resident.reads(v):
            rows[r].readers.append(graph.labels[v])
    return rows
