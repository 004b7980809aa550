"""The pages of the model zoo, from what the zoo builds today: docs/zoo.md, docs/layers.md and the drawings.

Usage: python docs/zoo.py [FOLDER]

A test compares the pages with what this script writes.
"""

import inspect
import re
import sys
from math import prod
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import remat_algos as ra
from docs.page_parts import table
from docs.published import PUBLISHED
from remat_algos.ir.kinds import operation_kind, operation_kinds
from remat_algos.wording import format_bytes
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import build, list_families
from remat_algos.zoo.settings import Settings

DOCS = Path(__file__).resolve().parent
NUMBER = re.compile(r"-|[0-9][0-9.,]*( [KMGTkB]?i?B?)?")
SMALL = {  # an instance of each family that can be drawn
    "deepspeech2": {"batch": 1, "sequence": 4, "depth": 1, "width": 8},
    "densenet": {"image": 32, "stages": (2, 1)},
    "diffusion_unet": {"image": 8, "depth": 1, "granularity": "layer"},
    "feed_forward": {"depth": 4},
    "googlenet": {"granularity": "layer"},
    "gpt2": {"sequence": 16, "depth": 1},
    "llama": {"sequence": 16, "depth": 1},
    "lstm": {"steps": 2, "depth": 1},
    "mixture_of_experts": {"sequence": 16, "depth": 1, "experts": 3},
    "mobilenet_v2": {"image": 32, "granularity": "layer"},
    "nmt": {"steps": 3, "depth": 1, "granularity": "layer"},
    "pspnet": {"image": 97, "depth": 50, "granularity": "layer"},
    "resnet": {"image": 32, "stages": (1, 1)},
    "resnet_cifar": {"stages": (1, 1, 1)},
    "switch_transformer": {"sequence": 16, "depth": 2, "granularity": "layer", "dropout": "single"},
    "transformer": {"sequence": 16, "depth": 2, "granularity": "layer", "dropout": "single"},
    "unet": {"image": 76, "depth": 2},
    "vgg": {"depth": 11},
    "vit": {"depth": 1},
}
WORDS = {  # where a docstring says nothing more
    "batch": "Examples.",
    "image": "Pixels of a side.",
    "classes": "Classes to tell apart.",
    "words": "Words of the vocabulary.",
    "heads": "Heads of each attention; they divide the width.",
    "kv_heads": "Heads of keys and values; None for as many as `heads`.",
    "fused": "Attention is one operation, which keeps no scores.",
    "sequence": "Words of an example.",
    "steps": "Steps that are unrolled.",
    "depth": "Layers.",
    "width": "Length of a state or an embedding.",
    "features": "Numbers of an example.",
}
MODELS = """# The model zoo

Well-known networks with real shapes, built from layer descriptions without a framework: for planning, for teaching, and
for the tables of the papers ([reproductions](papers/index.md)).

```python
import remat_algos as ra

network = ra.zoo.build("resnet50", batch=96, dtype="float16")
plan = ra.solve(ra.differentiate(network.graph), "50%")
print(network.n_parameters, network.macs, network.layers[0].shapes)
```

A model stands wherever the file of a graph does: `remat solve 'model:resnet50?batch=96&dtype=float16' --budget 50%` on
the command line, `ra.differentiate("model:resnet50?batch=96")` in Python, and `ra.zoo.build("resnet50?batch=96")`
takes its options so too. `remat models` lists the models, `remat convert 'model:resnet50?batch=96' resnet50.json`
writes one to a file.

[Costs](costs.md) explains what each operation costs, [Layers](layers.md) what each layer is made of.

## All models

At their defaults, at the granularity of operations, before differentiation. *Multiply-adds* are those of products of
matrices and convolutions in one forward pass of one example; *activations* are the bytes of all forward values of the
batch. A published number that differs from ours has a note below.

"""
COMMON = """
## Options of every model

{settings}

Nodes and bytes of ResNet-50 by granularity and counting:

{forms}

ResNet-200 with the updates of its parameters; the graph of kumar2019 (table 1) has 17,705 nodes and 27,312 edges, with
a node for each variable, constant and initialiser, which are residents here or not there at all:

{updated}

"""
LAYERS = """# Layers

The building blocks of the models in the [zoo](zoo.md): methods of `ra.zoo.Layers`, each of which
adds one or several operations. A table shows the nodes that the call in the heading adds, in float32. `image` is a
tensor of 8 x 16 x 32 x 32, `rows` one of 8 x 64 x 128, `row` one of 8 x 128; `tokens` are 8 x 64 integers, `labels` 8;
`expert` is a linear layer.

- *FLOPs*: two for each multiply-add, plus those of element-wise work.
- *moved*: bytes that the operation reads and writes once, including parameters.
- *workspace*: bytes needed only while it runs.
- *gradient reads*: the values that its gradient reads. Residents (inputs, parameters, states) are always in memory.
- *heavy*: a matrix product or a convolution.
- *in place*: the operation may [overwrite](theory/sharing.md) its first read, a sum or a difference either of its
  first two, if no later node reads that; its gradient may overwrite the gradient that it reads. *Gradient in place*:
  only the gradient may.
- *one bit*: gradients need only one bit per element of its value, which is what `--encode` keeps.
- *values*: those after the first, but for the parts of `split`, are kept for the gradient alone; with
  `counting="paper"` there are none of these.

"""
CALLS = (
    "net.convolution(image, 32, 3, stride=2, padding=1)",
    "net.convolution(image, 16, 3, padding=2, dilation=2, groups=4, bias=False)",
    "net.transposed_convolution(image, 8, 2, stride=2)",
    "net.linear(row, 10)",
    "net.matmul(rows, rows, transposed=True)",
    "net.embedding(tokens, 1000, 128)",
    "net.batch_norm(image)",
    "net.layer_norm(rows)",
    "net.rms_norm(rows)",
    "net.group_norm(image, 4)",
    "net.local_response_norm(image)",
    "net.relu(image)",
    "net.relu6(image)",
    "net.hard_tanh(image)",
    "net.gelu(rows)",
    "net.silu(rows)",
    "net.tanh(row)",
    "net.sigmoid(row)",
    "net.dropout(row)",
    "net.softmax(rows)",
    "net.max_pool(image, 3, 2, padding=1)",
    "net.average_pool(image, 2, 2)",
    "net.average_pool_to(image, 1, 1)",
    "net.upsample(image, 64, 64)",
    "net.add(image, image_2)",
    "net.multiply(row, row_2)",
    "net.scale(row)",
    "net.mask(rows, allowed)",
    "net.concat(image, image_2)",
    "net.split(row, 4)",
    "net.crop(image, 28, 28)",
    "net.reshape(image, 8, 16384)",
    "net.copy(rows, 8, 4, 64, 32)",
    "net.attention(rows, rows_2, rows_3, 4)",
    "net.attention(rows, rows_2, rows_3, 4, fused=True)",
    "net.lstm_cell(row, h, c, net.lstm_weights(128, 128))",
    "net.softmax_cross_entropy(row, labels)",
    "net.mean_square(row, row_2)",
    "net.ctc_loss(rows, tokens)",
    "net.routed(rows, expert, 4, 2, 100)",
)


def aligned_table(columns, rows):
    """A table in Markdown; columns of numbers to the right."""
    cells = [{str(row[i]) for row in rows} for i in range(len(columns))]
    numeric = [column != {"-"} and all(map(NUMBER.fullmatch, column)) for column in cells]
    return table(columns, rows, ["--:" if right else "---" for right in numeric])


# ---------------------------------------------------------------- the zoo


def zoo():
    """The page of the models."""
    rows, notes = [], {}
    for family in list_families():
        for name in family.variants:
            network, batch = build(name), default(family, name, "batch")
            graph, given = network.graph, PUBLISHED.get(name)
            rows.append(
                (
                    f"[{name}](#{family.name})",
                    batch,
                    graph.n_nodes,
                    graph.n_values,
                    f"{network.n_parameters:,}",
                    (given and given.parameters) or "-",
                    amount(network.macs // batch),
                    (given and given.macs) or "-",
                    format_bytes(network.activation_memory),
                )
            )
            if given and given.note:
                notes.setdefault(given.note, []).append(name)
    columns = (
        "model",
        "batch",
        "nodes",
        "values",
        "parameters",
        "published",
        "multiply-adds",
        "published",
        "activations",
    )
    text = (
        MODELS
        + aligned_table(columns, rows)
        + "\n\n"
        + "\n".join(f"- {', '.join(names)}: {note}." for note, names in notes.items())
        + "\n"
    )
    text += COMMON.format(settings=options(Settings), forms=forms(), updated=updated())
    return text + "\n".join(section(family) for family in list_families())


def default(family, name, option):
    """Of a model, where its family has that option."""
    return family.variants[name].get(option, family.options[option])


def amount(number):
    """In the words of the papers."""
    unit, letter = next((u, s) for u, s in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1, "")) if number >= u)
    return f"{number / unit:.5g} {letter}".strip()


def options(documented):
    """A table of the parameters of a numpydoc docstring; those that share a text have one row."""
    signature = inspect.signature(documented).parameters
    texts = {}
    lines = inspect.getdoc(documented).partition("\nParameters\n")[2].split("\n")[1:]
    for line in lines:
        if line and not line.startswith(" "):
            if " : " not in line:
                break
            names = tuple(name for name in line.split(" : ")[0].split(", ") if name != "net")
            texts[names] = []
        elif line.strip() and names:
            texts[names].append(line.strip())
    rows = []
    for names, text in texts.items():
        rows += [(names, " ".join(text))] if text else [((name,), WORDS[name]) for name in names]
    cells = [
        (
            ", ".join(f"`{name}`" for name in names),
            ", ".join(f"`{signature[name].default!r}`" for name in names),
            text,
        )
        for names, text in rows
        if names
    ]
    return linked(aligned_table(("option", "default", "what it is"), cells))


def forms():
    """ResNet-50 in all granularities and countings."""
    rows = []
    for granularity in ("operation", "layer", "primitive"):
        for counting in ("framework", "paper"):
            graph = build("resnet50", granularity=granularity, counting=counting).graph
            memory = format_bytes(int(graph.memory.sum()))
            rows.append((f"`{granularity}`", f"`{counting}`", graph.n_nodes, graph.n_values, memory))
    return aligned_table(("granularity", "counting", "nodes", "values", "bytes of all values"), rows)


def updated():
    """ResNet-200 as kumar2019 counts it, as far as it goes."""
    rows = []
    for granularity in ("operation", "primitive"):
        for optimizer in ("momentum", "adam", "adamw"):
            graph = build("resnet200", granularity=granularity, optimizer=optimizer).graph
            rows.append((f"`{granularity}`", f"`{optimizer}`", graph.n_nodes, graph.read_indices.size))
    return aligned_table(("granularity", "optimizer", "nodes", "reads"), rows)


def section(family):
    """What a family says of itself, its options, a small instance."""
    names = ", ".join(f"`{name}`" for name in family.variants)
    instance = "".join(f", {name}={value!r}" for name, value in SMALL[family.name].items())
    return f"""## {family.name}

{said_of(family.function)}

Models: {names}.

{options(family.function)}

![{family.name}](figures/zoo_{family.name}.svg)

*`build("{family.name}"{instance})`.*
"""


def said_of(documented):
    """A docstring up to its first section."""
    return linked(re.split(r"\n\n\w+\n---", inspect.getdoc(documented))[0])


def linked(text):
    """A text with links to the pages that it names."""
    return text.replace("(docs/costs.md)", "([costs](costs.md))")


def draw(folder):
    """A small instance of each family."""
    for family in list_families():
        graph = build(family.name, **SMALL[family.name]).graph
        ra.plot.save(ra.plot.graph(graph), folder / f"zoo_{family.name}.svg")


# ---------------------------------------------------------------- the layers


def layers():
    """The page of the vocabulary."""
    kinds = [
        (
            f"`{kind.name}`",
            reads(kind),
            ", ".join(kind.extra) or "-",
            "yes" if kind.heavy else "-",
            in_place(kind),
            "yes" if kind.binarizable else "-",
            ", ".join(kind.aliases) or "-",
        )
        for kind in operation_kinds()
    ]
    columns = ("operation", "gradient reads", "extra values", "heavy", "in place", "one bit", "also called")
    text = LAYERS + "\n".join(layer(call) for call in CALLS)
    return text + "\n## All kinds of operations\n\n" + aligned_table(columns, kinds) + "\n"


def reads(kind):
    own = [what for what, saved in zip(("its reads", "its values"), kind.saved(), strict=True) if saved]
    return ", ".join(own) or "-"


def in_place(kind):
    """What may be written over."""
    if kind.in_place:
        return "first read" if len(kind.in_place) == 1 else "either read"
    return "gradient" if kind.gradient_in_place else "-"


def marks(kind):
    """What the tables of layers say of a kind."""
    said = {
        "heavy": kind.heavy,
        "in place": kind.in_place,
        "gradient in place": kind.gradient_in_place and not kind.in_place,
        "one bit": kind.binarizable,
    }
    return [word for word, holds in said.items() if holds]


def layer(call):
    """A call, what it is, and a table of what it adds."""
    net = Layers("layer", Settings())
    shapes = {"image": (8, 16, 32, 32), "rows": (8, 64, 128), "row": (8, 128)}
    given = {"net": net}
    for name, shape in shapes.items():
        for k in (1, 2, 3):
            full = name if k == 1 else f"{name}_{k}"
            given[full] = net.run("Source", [], shape, name=full)
    given |= {name: net.input(name, (8, 128)) for name in ("h", "c")}
    given |= {"tokens": net.input("tokens", (8, 64), "int64"), "labels": net.input("labels", (8,), "int64")}
    given["expert"] = lambda part, name: net.linear(part, 128, name=name)
    given["allowed"] = net.input("allowed", (64, 128), "bool")
    before = len(net.layers)
    eval(call, given)
    graph = net.network().graph
    method = getattr(Layers, call.split("(")[0].removeprefix("net."))
    said = said_of(method)
    rows = [row(graph, v, net.layers[v], net) for v in range(before, len(net.layers))]
    columns = ("node", "operation", "values", "FLOPs", "moved", "parameters", "workspace", "gradient reads")
    return f"## {call.removeprefix('net.')}\n\n{said}\n\n{aligned_table(columns, rows)}\n"


def row(graph, v, layer, net):
    """One operation."""
    first = int(graph.value_indptr[v])
    values = "<br>".join(
        f"{'' if k == 0 else graph.value_name(first + k) + ' '}{' x '.join(map(str, shape)) or 'a number'}, {dtype}"
        for k, (shape, dtype) in enumerate(zip(layer.shapes, layer.dtypes, strict=True))
    )
    kind = operation_kind(layer.op)
    words = [layer.op, *(marks(kind) if kind else []), *(["once"] if graph.once[v] else [])]
    saved = ", ".join(graph.value_name(x) for x in graph.backward.saved(v))
    learned = sum(prod(net.parameter_shapes[name]) for name in layer.parameters)
    return (
        layer.name,
        ", ".join(words),
        values,
        f"{layer.flops:,}",
        f"{layer.bytes_moved:,}",
        f"{learned:,}",
        f"{int(graph.workspace[v]):,}",
        saved or "-",
    )


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures").mkdir(exist_ok=True)
    (folder / "zoo.md").write_text(zoo(), encoding="utf-8")
    (folder / "layers.md").write_text(layers(), encoding="utf-8")
    draw(folder / "figures")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else DOCS)
