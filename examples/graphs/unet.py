"""Write a two-dimensional U-Net as unet.nodes.csv, unet.edges.csv and unet.values.csv, beside this script.

Usage: python unet.py [FOLDER]

The encoder halves the image four times, the decoder doubles it again and joins it with what the encoder had at that
size. Sizes are bytes of float32 tensors. Compute is millions of operations: two for each multiply and add, else one
for each element that is written or compared. What the gradient of each operation reads is in the `grad_needs`
and `saved` columns.
"""

import csv
import sys
from math import prod
from pathlib import Path

BATCH, CHANNELS, IMAGE, CLASSES = 8, 3, 256, 2
WIDTH, DEPTH = 64, 4  # channels after the first convolution, doubled by each of so many halvings of the image
FLOAT, INDEX, MASK, LABEL = 4, 8, 1, 8  # bytes of an element
MOST_WORKSPACE = 64 * 2**20  # bytes that a convolution may take to lay out one image at a time

nodes: list[dict] = []
edges: list[dict] = []
values: list[dict] = []
shapes: dict[str, tuple[int, ...]] = {}  # of each resident and each first value: batch, channels, height, width


def resident(name, shape, size):
    nodes.append({"name": name, "memory_bytes": prod(shape) * size, "resident": "input"})
    shapes[name] = shape


def node(name, op, reads, shape, operations, needs=(0, 0), second=None, **columns):
    """One operation; `second` is the name and bytes of a value that only its gradient reads."""
    memory = prod(shape) * FLOAT
    row = {"name": name, "op": op, "compute": round(operations / 1e6), "grad_needs_inputs": needs[0]} | columns
    if second is None:
        row |= {"memory_bytes": memory, "grad_needs_output": needs[1]}
    else:
        values.append({"node": name, "memory_bytes": memory, "saved": 0})
        values.append({"node": name, "name": second[0], "memory_bytes": second[1], "grad_memory": -1, "saved": 1})
    nodes.append(row)
    shapes[name] = shape
    edges.extend({"src": source, "dst": name} for source in reads)
    return name


def convolution(name, source, channels, kernel=3):
    """Its gradient reads what it reads."""
    batch, before, height, width = shapes[source]
    taps = before * kernel * kernel
    workspace = min(taps * height * width * FLOAT, MOST_WORKSPACE) if kernel > 1 else 0
    shape = (batch, channels, height, width)
    operations = 2 * prod(shape) * taps
    columns = {"workspace": workspace, "grad_workspace": workspace, "param_memory": channels * (taps + 1) * FLOAT}
    return node(name, "Convolution", [source], shape, operations, (1, 0), **columns)


def up_convolution(name, source, channels):
    """Each element becomes a square of 2 by 2; its gradient reads what it reads."""
    batch, before, height, width = shapes[source]
    shape = (batch, channels, 2 * height, 2 * width)
    operations = 2 * prod(shape) * before
    parameters = channels * (before * 4 + 1) * FLOAT
    return node(name, "UpConvolution", [source], shape, operations, (1, 0), param_memory=parameters)


def relu(name, source):
    """Its gradient reads what it makes."""
    return node(name, "ReLU", [source], shapes[source], prod(shapes[source]), (0, 1))


def max_pooling(name, source):
    """Its gradient reads where the largest elements were, and no more."""
    batch, channels, height, width = shapes[source]
    shape = (batch, channels, height // 2, width // 2)
    second = (f"{name}.indices", prod(shape) * INDEX)
    return node(name, "MaxPooling", [source], shape, prod(shapes[source]), second=second)


def dropout(name, source):
    """Its gradient reads the mask; a second run would draw another one."""
    shape = shapes[source]
    second = (f"{name}.mask", prod(shape) * MASK)
    return node(name, "Dropout", [source], shape, prod(shape), second=second, once=1)


def concatenation(name, first, second):
    """Its gradient is cut in two and reads nothing."""
    batch, channels, height, width = shapes[first]
    shape = (batch, channels + shapes[second][1], height, width)
    return node(name, "Concat", [first, second], shape, prod(shape))


def cross_entropy(name, scores, labels):
    """Its gradient reads the probabilities, and the labels, which are there from the start."""
    elements = prod(shapes[scores])
    second = ("probabilities", elements * FLOAT)
    return node(name, "SoftmaxCrossEntropy", [scores, labels], (), 4 * elements, second=second)


def block(name, x, channels):
    x = relu(f"{name}.relu1", convolution(f"{name}.conv1", x, channels))
    return relu(f"{name}.relu2", convolution(f"{name}.conv2", x, channels))


def unet():
    resident("image", (BATCH, CHANNELS, IMAGE, IMAGE), FLOAT)
    resident("labels", (BATCH, 1, IMAGE, IMAGE), LABEL)
    x, skipped = "image", []
    for level in range(DEPTH):
        skipped.append(block(f"enc{level}", x, WIDTH << level))
        x = max_pooling(f"enc{level}.pool", skipped[-1])
    x = dropout("bottom.dropout", block("bottom", x, WIDTH << DEPTH))
    for level in reversed(range(DEPTH)):
        x = relu(f"dec{level}.relu0", up_convolution(f"dec{level}.up", x, WIDTH << level))
        x = block(f"dec{level}", concatenation(f"dec{level}.concat", skipped[level], x), WIDTH << level)
    cross_entropy("loss", convolution("scores", x, CLASSES, kernel=1), "labels")


def write(path, rows, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns.split(), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    unet()
    columns = "name op memory_bytes compute workspace once param_memory resident"
    write(folder / "unet.nodes.csv", nodes, f"{columns} grad_needs_inputs grad_needs_output grad_workspace")
    write(folder / "unet.edges.csv", edges, "src dst")
    write(folder / "unet.values.csv", values, "node name memory_bytes grad_memory saved")
