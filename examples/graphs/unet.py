"""Write a two-dimensional U-Net as unet.nodes.csv, unet.edges.csv and unet.values.csv, beside this script.

Usage: python unet.py [FOLDER]

The encoder halves the image four times, the decoder doubles it again and joins it with what the encoder had at that
size. Sizes are bytes of float32 tensors. Compute is millions of operations: two for each multiply and add, else one
for each element that is written or compared. What the gradient of each operation reads is in the `grad_needs`
and `saved` columns.
"""

from math import prod

from tables import FLOAT, INDEX, Tables, saved

BATCH, CHANNELS, IMAGE, CLASSES = 8, 3, 256, 2
WIDTH, DEPTH = 64, 4  # channels after the first convolution, doubled by each of so many halvings of the image
MOST_WORKSPACE = 64 * 2**20  # bytes that a convolution may take to lay out one image at a time

graph = Tables()  # shapes are batch, channels, height, width


def convolution(name, source, channels, kernel=3):
    """Its gradient reads what it reads."""
    batch, before, height, width = graph.shapes[source]
    taps = before * kernel * kernel
    workspace = min(taps * height * width * FLOAT, MOST_WORKSPACE) if kernel > 1 else 0
    shape = (batch, channels, height, width)
    operations = 2 * prod(shape) * taps
    columns = {"workspace": workspace, "grad_workspace": workspace, "param_memory": channels * (taps + 1) * FLOAT}
    return graph.node(name, "Convolution", [source], shape, operations, (1, 0), **columns)


def up_convolution(name, source, channels):
    """Each element becomes a square of 2 by 2; its gradient reads what it reads."""
    batch, before, height, width = graph.shapes[source]
    shape = (batch, channels, 2 * height, 2 * width)
    operations = 2 * prod(shape) * before
    parameters = channels * (before * 4 + 1) * FLOAT
    return graph.node(name, "UpConvolution", [source], shape, operations, (1, 0), param_memory=parameters)


def relu(name, source):
    """Its gradient reads what it makes."""
    return graph.node(name, "ReLU", [source], graph.shapes[source], prod(graph.shapes[source]), (0, 1))


def max_pooling(name, source):
    """Its gradient reads where the largest elements were, and no more."""
    batch, channels, height, width = graph.shapes[source]
    shape = (batch, channels, height // 2, width // 2)
    more = [saved(f"{name}.indices", shape, INDEX)]
    return graph.node(name, "MaxPooling", [source], shape, prod(graph.shapes[source]), more=more)


def concatenation(name, first, second):
    """Its gradient is cut in two and reads nothing."""
    batch, channels, height, width = graph.shapes[first]
    shape = (batch, channels + graph.shapes[second][1], height, width)
    return graph.node(name, "Concat", [first, second], shape, prod(shape))


def block(name, x, channels):
    x = relu(f"{name}.relu1", convolution(f"{name}.conv1", x, channels))
    return relu(f"{name}.relu2", convolution(f"{name}.conv2", x, channels))


def unet():
    x, skipped = graph.resident("image", (BATCH, CHANNELS, IMAGE, IMAGE)), []
    labels = graph.resident("labels", (BATCH, 1, IMAGE, IMAGE), INDEX)
    for level in range(DEPTH):
        skipped.append(block(f"enc{level}", x, WIDTH << level))
        x = max_pooling(f"enc{level}.pool", skipped[-1])
    x = graph.dropout("bottom.dropout", block("bottom", x, WIDTH << DEPTH))
    for level in reversed(range(DEPTH)):
        x = relu(f"dec{level}.relu0", up_convolution(f"dec{level}.up", x, WIDTH << level))
        x = block(f"dec{level}", concatenation(f"dec{level}.concat", skipped[level], x), WIDTH << level)
    graph.cross_entropy("loss", convolution("scores", x, CLASSES, kernel=1), labels)


if __name__ == "__main__":
    unet()
    graph.write(__file__)
