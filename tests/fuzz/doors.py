"""Texts of other formats, which no reader may take for an edge list, and edge lists, which it must read as written."""

import io
import itertools
import pickle
import random
import tempfile
from pathlib import Path

import networkx as nx

import remat_algos as ra

UNIT = "texts"
BATCH = 10  # of each kind per case
NAMES = ("conv", "relu", "fc.0", "layer1/add", "grad(x)", "a[0]", "x:1", "é", "10", "7", "B", "%0", "softmax-2")
WRITERS = {
    "GML": nx.write_gml,
    "Pajek": nx.write_pajek,
    "GEXF": nx.write_gexf,
    "multiline adjacency list": nx.write_multiline_adjlist,
    "graph6": lambda graph, out: nx.write_graph6(nx.convert_node_labels_to_integers(graph.to_undirected()), out),
    "sparse6": lambda graph, out: nx.write_sparse6(nx.convert_node_labels_to_integers(graph.to_undirected()), out),
}


def case(rng, report):
    """A random graph in all formats, and as an edge list of several kinds."""
    for _ in range(BATCH):
        names, edges = drawn(rng)
        for kind, text in others(rng, names, edges).items():
            report.count("texts")
            report.count("texts of other formats")
            if (graph := read(text)) is not None:
                report.fault(f"{kind} is read as a graph", f"{graph.n_nodes} nodes", {"g.txt": text})
        text = edge_list(rng, names, edges)
        report.count("texts")
        graph = read(text)
        if graph is None or edges_of(graph) != edges:
            report.fault("an edge list is not read as it is written", repr(graph), {"g.txt": text})


def drawn(rng: random.Random):
    """Names in topological order and at least two edges between them, some of which share a node."""
    names = rng.sample(NAMES, rng.randint(3, 8)) if rng.random() < 0.7 else [str(i) for i in range(rng.randint(3, 20))]
    path = set(itertools.pairwise(names))
    pairs = [(u, v) for j, v in enumerate(names) for u in names[:j]]
    return names, path | set(rng.sample(pairs, rng.randint(0, len(pairs) // 2)))


def others(rng, names, edges):
    """The bytes of other formats by name."""
    graph = nx.DiGraph(sorted(edges))
    texts = {}
    for kind, write in WRITERS.items():
        out = io.BytesIO()
        write(graph, out)
        texts[kind] = out.getvalue()
    ids = {name: i + 1 for i, name in enumerate(names)}
    arrow = rng.choice(["-->", "---", "==>", "-.->"])
    head = rng.choice(["graph TD", "flowchart LR", "%% a comment\ngraph TB"])
    texts["Mermaid"] = "\n".join([head, *(f"  n{ids[u]} {arrow} n{ids[v]}" for u, v in sorted(edges)), ""]).encode()
    rules = "".join(f"{v}.o: {u}.o\n" for u, v in sorted(edges))
    texts["makefile"] = rules.encode()
    problem = rng.choice(["edge", "col", "sp", "max"])
    rows = "".join(f"e {ids[u]} {ids[v]}\n" for u, v in sorted(edges))
    texts["DIMACS"] = f"c {rng.random()}\np {problem} {len(names)} {len(edges)}\n{rows}".encode()
    texts["MatrixMarket"] = (
        f"%%MatrixMarket matrix coordinate pattern general\n{len(names)} {len(names)} 1\n1 2\n".encode()
    )
    texts["YAML"] = "".join(f"{v}: {u}\n" for u, v in sorted(edges)).encode()
    texts["settings"] = "".join(f"{v}={u}\n" for u, v in sorted(edges)).encode()
    texts["pickle"] = pickle.dumps(rng.choice([sorted(edges), dict(edges), ids]), protocol=rng.choice([0, 1]))
    texts["JSON lines"] = "".join(f'["{u}", "{v}"]\n' for u, v in sorted(edges)).encode()
    texts["sizes"] = "".join(
        f"{name} {rng.choice([4096, '4MB', '1.5'])}\n" for name in names if name.isalpha()
    ).encode()
    return {kind: text for kind, text in texts.items() if kind != "sizes" or text.count(b"\n") > 1}


def edge_list(rng, names, edges):
    """An edge list with comments, blank lines, arrows, quotes and lone nodes."""
    lines = rng.sample([f"# {rng.random()}", "", "#", "## part", names[0]], rng.randint(0, 4))
    middle = rng.choice([" ", "\t", " -> ", "  "])
    for u, v in sorted(edges):
        quoted = rng.random() < 0.2
        lines.append(f'"{u}"{middle}"{v}"' if quoted else f"{u}{middle}{v}")
        if rng.random() < 0.1:
            lines[-1] += rng.choice([" # a comment", " {}" if middle in " \t" else ""])
    return "\n".join([*lines, ""]).encode()


def read(text):
    """The graph of a text; None if it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "g.txt")
        file.write_bytes(text)
        try:
            return ra.read_graph(file)
        except ra.GraphError:
            return None


def edges_of(graph):
    return {(graph.value_name(x), graph.labels[v]) for v in range(graph.n_nodes) for x in graph.reads(v)}
