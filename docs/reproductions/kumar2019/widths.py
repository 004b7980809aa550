"""Table 1 of kumar2019: sizes and widths of graphs and of their forward parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from docs.reproductions.page import Table
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.structure.elimination import UndirectedGraph
from remat_algos.structure.treewidth import width_bounds
from remat_algos.zoo.registry import build

TABLE_1: dict[str, tuple[tuple[int, int, int] | None, str, str]] = {  # nodes, edges, width in the paper; ours
    "ResNet200": ((17_705, 27_312, 11), "model:resnet?depth=200&", "momentum"),
    "FFN (100 layers)": ((3_217, 4_447, 6), "model:feed_forward?", "sgd"),
    "Transformer Base": ((15_842, 21_771, 18), "model:transformer_base?", "adam"),
}
QUICK_TABLE_1 = {"feed_forward of 10 layers": (None, "model:feed_forward?depth=10&", "sgd")}
ZOO = (
    *("feed_forward", "vgg19", "resnet200", "mobilenet_v2", "unet", "googlenet", "densenet121", "pspnet"),
    *("transformer_base", "gpt2_small", "vit_b_16", "stable_diffusion_unet", "lstm?steps=8"),
)
QUICK_ZOO = ("feed_forward?depth=10", "resnet18")


@dataclass(frozen=True, slots=True)
class Width:
    """Size of a graph, and bounds on its treewidth.

    Parameters
    ----------
    n_nodes, n_edges : int
        Edges join nodes, without directions.
    width : int
        The smallest found.
    lower_bound : int

    Examples
    --------
    >>> from remat_algos.zoo.random import chain
    >>> str(Width.of(chain(5))), str(Width(9, 20, 5, 4))
    ('1', '4-5')
    """

    n_nodes: int
    n_edges: int
    width: int
    lower_bound: int

    @classmethod
    def of(cls, graph: ComputationGraph) -> Width:
        """The width of a graph with all its nodes."""
        undirected = UndirectedGraph.of(graph)
        bounds = width_bounds(undirected)
        return cls(undirected.n_vertices, undirected.n_edges, bounds.width, bounds.lower_bound)

    def __str__(self) -> str:
        return str(self.width) if self.width == self.lower_bound else f"{self.lower_bound}-{self.width}"


@dataclass(frozen=True, slots=True)
class Widths:
    """Widths of a network: forward part, with gradients of values, and with gradients of parameters too.

    Parameters
    ----------
    model : str
        Reference of the model.
    forward, values, parameters : Width

    Examples
    --------
    >>> widths = Widths.of("feed_forward?depth=4")
    >>> widths.forward.width, widths.parameters.width, widths.ratio
    (1, 2, 2.0)
    """

    model: str
    forward: Width
    values: Width
    parameters: Width

    @classmethod
    def of(cls, model: str) -> Widths:
        """The widths of a network of the zoo."""
        forward = build(f"model:{model}").graph
        graphs = forward, differentiate(forward), differentiate(forward, parameter_gradients=True)
        return cls(model, *map(Width.of, graphs))

    @property
    def ratio(self) -> float:
        """Width with gradients of parameters, relative to the forward part's."""
        return round(self.parameters.width / self.forward.width, 2)

    @property
    def proven(self) -> float:
        """A lower bound of the ratio."""
        return round(self.parameters.lower_bound / self.forward.width, 2)


def table_1(quick: bool) -> Table:
    """Nodes, edges and widths of the paper's three graphs, and of ours in two granularities."""
    by = "granularity" if quick else "by"
    heads = ("graph", by, "n", "m", "width", "lower bound", "n, forward", "width, forward")
    columns: dict[str, Callable[[Any], str]] = dict.fromkeys(heads, str)
    rows: list[tuple[Any, ...]] = []
    for label, (quoted, reference, optimizer) in (QUICK_TABLE_1 if quick else TABLE_1).items():
        if quoted is not None:
            rows.append((label, "paper", *quoted, None, None, None))
        for granularity in ("operation", "primitive"):
            forward = build(f"{reference}granularity={granularity}").graph
            whole = build(f"{reference}granularity={granularity}&optimizer={optimizer}").graph
            part, widths = Width.of(forward), Width.of(whole)
            sizes = widths.n_nodes, widths.n_edges, widths.width, widths.lower_bound
            rows.append((label, granularity if quick else f"ours, {granularity}", *sizes, part.n_nodes, part.width))
    note = "`lower bound` is that of contractions (MMD+): a width that equals it is the treewidth."
    return Table("table1", "Training graphs and their widths (Table 1)", columns, rows, note)


def quick_references() -> dict[str, str]:
    """Networks of the quick tables of widths, by label."""
    of_table_1 = {label: f"{reference}optimizer={name}" for label, (_, reference, name) in QUICK_TABLE_1.items()}
    return of_table_1 | {f"`{model}`": f"model:{model}" for model in QUICK_ZOO}


def networks(quick: bool) -> list[Widths]:
    """The widths of networks of the zoo."""
    return [Widths.of(model) for model in (QUICK_ZOO if quick else ZOO)]


def postulate(widths: Sequence[Widths]) -> Table:
    """Widths of forward parts and of whole training graphs over the zoo."""
    heads = ("network", "n", "width", "n, gradients", "width, gradients", "n, of parameters", "width, of parameters")
    columns: dict[str, Callable[[Any], str]] = dict.fromkeys(heads, str)
    columns |= {"ratio": "{:.2f}".format, "proven ratio": "{:.2f}".format}
    rows = [
        (
            f"`{each.model}`",
            *(cell for part in (each.forward, each.values, each.parameters) for cell in (part.n_nodes, str(part))),
            each.ratio,
            each.proven,
        )
        for each in widths
    ]
    note = (
        "`gradients` adds the gradients of values only, `of parameters` those of parameters as well. "
        "4-5 is a width of 5 with a lower bound of 4. Ratios are of the last "
        "width to the first; `proven ratio` is a lower bound of the ratio."
    )
    return Table("postulate", "Widths of forward parts and of training graphs", columns, rows, note)
