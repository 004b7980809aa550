"""Write a two-dimensional U-Net as unet.nodes.csv, unet.edges.csv and unet.values.csv.

Usage: python unet.py [FOLDER, by default that of this script]

The encoder halves the image four times; the decoder doubles it four times, and concatenates it with the encoder's
output of that size. Sizes are bytes of float32 tensors. Compute is in millions of operations: two for each multiply and
add, else one for each element that is written or compared. The columns `grad_needs_inputs`, `grad_needs_output` and
`saved` state what the gradient of each operation reads.
"""

from math import prod

from tables import FLOAT, INDEX, Tables, saved

BATCH, CHANNELS, IMAGE, CLASSES = 8, 3, 256, 2
# Channels after the first convolution, which double whenever the image is halved; number of halvings.
WIDTH, DEPTH = 64, 4
# Limit in bytes of a convolution that unfolds one image at a time.
MAX_WORKSPACE = 64 * 2**20

graph = Tables()  # shapes are batch, channels, height, width


def convolution(name, source, channels, kernel=3):
    """Add a convolution; its gradient reads its input."""
    batch, before, height, width = graph.shapes[source]
    taps = before * kernel * kernel
    workspace = min(taps * height * width * FLOAT, MAX_WORKSPACE) if kernel > 1 else 0
    shape = (batch, channels, height, width)
    operations = 2 * prod(shape) * taps
    columns = {"workspace": workspace, "grad_workspace": workspace, "param_memory": channels * (taps + 1) * FLOAT}
    return graph.node(name, "Convolution", [source], shape, operations, (1, 0), **columns)


def up_convolution(name, source, channels):
    """Add a convolution that turns each element into a square of 2 by 2; its gradient reads its input."""
    batch, before, height, width = graph.shapes[source]
    shape = (batch, channels, 2 * height, 2 * width)
    operations = 2 * prod(shape) * before
    parameters = channels * (before * 4 + 1) * FLOAT
    return graph.node(name, "UpConvolution", [source], shape, operations, (1, 0), param_memory=parameters)


def relu(name, source):
    """Add a ReLU; its gradient reads its output."""
    return graph.node(name, "ReLU", [source], graph.shapes[source], prod(graph.shapes[source]), (0, 1))


def max_pooling(name, source):
    """Add a pooling; its gradient reads only the indices of the largest elements."""
    batch, channels, height, width = graph.shapes[source]
    shape = (batch, channels, height // 2, width // 2)
    more = [saved(f"{name}.indices", shape, INDEX)]
    return graph.node(name, "MaxPooling", [source], shape, prod(graph.shapes[source]), more=more)


def concatenation(name, first, second):
    """Add a concatenation; its gradient splits a tensor and reads nothing else."""
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
