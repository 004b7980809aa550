"""A small deep learning library that trains the networks of the zoo on NumPy or CuPy, by any schedule.

Every operation has a formula for its values and one for its gradient; the gradient reads only the values that the graph
states. So recomputed values, losses and parameters can be compared bit for bit. Run it from a checkout:

    python examples/8_train_a_network.py

In your own code, from the root of the checkout: `from examples.layers.training import train`, or `LayerOperators` of
`examples.layers.layer_operators`, which `remat_algos.execute` takes. docs/layers.md lists what the gradients read.
"""
