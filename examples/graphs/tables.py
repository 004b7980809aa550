"""The tables of a graph, collected operation by operation, and operations that several example graphs share.

Sizes are bytes, mostly of float32 tensors. Compute is in millions of operations: two for each multiply and add of a
matrix product, else the number per element that each function below states.
"""

import csv
import sys
from math import prod
from pathlib import Path

FLOAT, INDEX, MASK = 4, 8, 1  # bytes of an element
NODES = "name op memory_bytes compute workspace once param_memory resident view_of"
GRADIENTS = "grad_needs_inputs grad_needs_output grad_workspace"


class Tables:
    """Rows of X.nodes.csv, X.edges.csv and X.values.csv; compute is rounded to `decimals`."""

    def __init__(self, decimals=None):
        self.decimals = decimals
        self.nodes, self.edges, self.values = [], [], []
        self.shapes = {}  # of residents, views, first values

    def resident(self, name, shape, size=FLOAT, role="input"):
        self.nodes.append({"name": name, "memory_bytes": prod(shape) * size, "resident": role})
        self.shapes[name] = shape
        return name

    def parameter(self, name, *shape):
        return self.resident(name, shape, role="parameter")

    def view(self, name, base, shape):
        """Add a view of a value or of a part of it, in another shape."""
        self.nodes.append({"name": name, "op": "View", "view_of": base})
        self.shapes[name] = shape
        return name

    def node(self, name, op, reads, shape, operations, needs=(0, 0), saves=(), more=(), **columns):
        """Add an operation.

        `needs` tells whether its gradient reads all its reads, and its first value; otherwise the gradient reads only
        those in `saves`. `more` are the rows of its values after the first.
        """
        row = {"name": name, "op": op, "compute": round(operations / 1e6, self.decimals)}
        row |= {"grad_needs_inputs": needs[0]} | columns
        own = {"memory_bytes": prod(shape) * FLOAT}
        if more:
            self.values.extend({"node": name} | value for value in (own | {"saved": needs[1]}, *more))
        else:
            row |= own | {"grad_needs_output": needs[1]}
        self.nodes.append(row)
        self.shapes[name] = shape
        self.edges.extend({"src": source, "dst": name} | ({"saved": 1} if source in saves else {}) for source in reads)
        return name

    def linear(self, name, source, features, parameters=None):
        """Add a product with a matrix, its own unless parameters are given; its gradient reads its reads."""
        *rows, before = self.shapes[source]
        own = {} if parameters else {"param_memory": features * (before + 1) * FLOAT}
        operations = 2 * prod(rows) * before * features
        reads = [source, *(parameters or ())]
        return self.node(name, "Linear", reads, (*rows, features), operations, (1, 0), **own)

    def embedding(self, name, tokens, weight, shape):
        """Add a lookup of a row of the weight for each token, 1 per element; its gradient reads the tokens."""
        return self.node(name, "Embedding", [tokens, weight], shape, prod(shape))

    def dropout(self, name, source):
        """Add a dropout, 1 per element. Its gradient reads the mask; a second run would draw another mask."""
        shape = self.shapes[source]
        return self.node(
            name, "Dropout", [source], shape, prod(shape), more=[saved(f"{name}.mask", shape, MASK)], once=1
        )

    def cross_entropy(self, name, scores, labels, probabilities="probabilities"):
        """Add a loss, 4 per score. Its gradient reads the probabilities, and the labels, which are residents."""
        shape = self.shapes[scores]
        more = [saved(probabilities, shape)]
        return self.node(name, "SoftmaxCrossEntropy", [scores, labels], (), 4 * prod(shape), more=more)

    def write(self, script):
        """Write the tables under the name of the script, to the folder on the command line or that of the script."""
        script = Path(script)
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else script.parent
        _write(folder / f"{script.stem}.nodes.csv", self.nodes, f"{NODES} {GRADIENTS}")
        _write(folder / f"{script.stem}.edges.csv", self.edges, "src dst saved")
        _write(folder / f"{script.stem}.values.csv", self.values, "node name memory_bytes grad_memory saved")


def saved(name, shape, size=FLOAT):
    """Return the row of a value that only a gradient reads."""
    return {"name": name, "memory_bytes": prod(shape) * size, "grad_memory": -1, "saved": 1}


def _write(path, rows, columns):
    """Write rows without the columns that none of them has."""
    used = [column for column in columns.split() if any(column in row for row in rows)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, used, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
