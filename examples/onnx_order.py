"""From an ONNX model to a plan: the order of one training step, for another runtime.

You learn to take the graph from a model with symbolic dimensions, to add its gradients, and to
write the plan as lines that any runtime can follow. Needs onnx:
python -m pip install -e '.[onnx]'.

Usage: python examples/onnx_order.py
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import remat_algos as ra
from remat_algos.interop.onnx import capture

LAYERS, WIDTH = 6, 256

nodes, weights, x = [], [], "x"  # stands for a file: capture("net.onnx", {"batch": 64})
for i in range(1, LAYERS + 1):
    weights.append(numpy_helper.from_array(np.zeros((WIDTH, WIDTH), np.float32), f"w{i}"))
    nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"matmul{i}"]))
    nodes.append(helper.make_node("Gelu", [f"matmul{i}"], [f"gelu{i}"]))
    x = f"gelu{i}"
nodes.append(helper.make_node("ReduceMean", [x], ["loss"], keepdims=0))
data = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])
loss = helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])
net = helper.make_graph(nodes, "net", [data], [loss], weights)
model = helper.make_model(net, opset_imports=[helper.make_opsetid("", 20)])

try:
    capture(model)
except ra.GraphError as error:
    print(error)

graph = capture(model, {"batch": 4096})
training = ra.differentiate(graph, parameter_gradients=True, loss=["loss"])
plan = ra.solve(training, "60%")
print(training, plan, sep="\n")
print(*plan.text("actions").splitlines()[-9:], sep="\n")
