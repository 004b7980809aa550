"""`Layers`: all builder methods of models."""

from __future__ import annotations

from remat_algos.zoo.cells import Cells
from remat_algos.zoo.experts import Experts
from remat_algos.zoo.losses import Losses
from remat_algos.zoo.norms import Norms
from remat_algos.zoo.windows import Windows


class Layers(Windows, Norms, Cells, Experts, Losses):
    """Operations of a network: each method adds one or several and returns a `Tensor`.

    docs/layers.md has a table for each.

    Examples
    --------
    A network of four operations: x -> conv -> norm -> relu -> loss.

    >>> from remat_algos.zoo.settings import Settings
    >>> net = Layers("small", Settings(workspace=0))
    >>> x = net.input("x", (8, 3, 32, 32))
    >>> y = net.relu(net.batch_norm(net.convolution(x, 16, 3, padding=1, bias=False)))
    >>> loss = net.mean_square(y, net.input("target", y.shape))
    >>> small = net.network()
    >>> small.n_parameters, small.macs, small.graph.node_names()
    (464, 3538944, ['conv', 'norm', 'relu', 'loss'])
    """
