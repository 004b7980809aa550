"""The pages of the model zoo, from what the zoo builds today: docs/zoo.md, docs/layers.md and the drawings.

Usage: python docs/zoo.py [FOLDER]

A test compares the pages with what this script writes.
"""

import inspect
import re
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import remat_algos as ra
from docs.page_parts import table
from docs.published import PUBLISHED
from remat_algos.ir.kinds import operation_kinds
from remat_algos.wording import format_bytes
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import build, list_families
from remat_algos.zoo.settings import Settings

DOCS = Path(__file__).resolve().parent
NUMBER = re.compile(r"[0-9][0-9.,]*( [KMGTkB]?i?B?)?")
SMALL = {  # an instance of each family that can be drawn
    "deepspeech2": {"batch": 1, "sequence": 4, "depth": 1, "width": 8},
    "densenet": {"image": 32, "stages": (2, 1)},
    "diffusion_unet": {"image": 8, "depth": 1, "multipliers": (1, 2), "granularity": "layer"},
    "feed_forward": {"depth": 4},
    "googlenet": {"granularity": "layer"},
    "gpt2": {"sequence": 16, "depth": 1},
    "llama": {"sequence": 16, "depth": 1},
    "lstm": {"steps": 2, "depth": 1},
    "mixture_of_experts": {"sequence": 16, "depth": 1, "experts": 2},
    "mobilenet_v2": {"image": 32, "granularity": "layer"},
    "nmt": {"steps": 2, "depth": 1, "granularity": "layer"},
    "pspnet": {"image": 97, "depth": 50, "granularity": "layer"},
    "resnet": {"image": 32, "stages": (1, 1)},
    "resnet_cifar": {"stages": (1, 1, 1)},
    "switch_transformer": {"sequence": 16, "depth": 2, "granularity": "layer", "dropout": "single"},
    "transformer": {"sequence": 16, "depth": 2, "granularity": "layer", "dropout": "single"},
    "unet": {"image": 76, "depth": 2},
    "vgg": {"depth": 11},
    "vit": {"depth": 1},
}
WORDS = {  # options of several families, where a docstring says nothing more
    "batch": "Examples.",
    "image": "Pixels of a side.",
    "classes": "Classes of the output.",
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

`model:NAME` replaces the file of a graph: `remat solve 'model:resnet50?batch=96&dtype=float16' --budget 50%` on the
command line, `ra.differentiate("model:resnet50?batch=96")` in Python. `remat models` lists all models with nodes, bytes
and parameters, `remat models NAME` the options and defaults of one, and `remat convert 'model:resnet50' resnet50.json`
writes one to a file. [Costs](costs.md) explains the cost of each operation, [Layers](layers.md) the parts of layers.

## Published figures

Parameters and multiply-adds (matrix products and convolutions of one forward pass of one example), which `remat models`
prints, agree with the [published ones](published.py) in all printed digits of the parameters and within 1 % of the
multiply-adds, except:

"""
COMMON = """
## Options of every model

{settings}ResNet-50 by granularity and counting:

{forms}

ResNet-200 with `granularity="primitive"` and `optimizer="adam"` has {updated}; the graph of
kumar2019 (table 1) has 17,705 nodes and 27,312 edges, with nodes for variables, constants and initialisers.

Options of several families:

{shared}

"""
LAYERS = """# Layers

The building blocks of the models in the [zoo](zoo.md): methods of `ra.zoo.Layers`. The tables show the nodes that a
call adds. `image` is a tensor of 8 x 16 x 32 x 32, `rows` one of 8 x 64 x 128, `row` one of 8 x 128; `tokens` are 8 x
64 integers, `labels` 8; `expert` is a linear layer. Values are float32 unless stated.

- *FLOPs*: two for each multiply-add, plus those of element-wise work.
- *gradient reads*: the values that its gradient reads. Residents (inputs, parameters, states) are always in memory.
- *values*: the values of a node. All after the first, except the parts of `split`, are kept for the gradient alone;
  with `counting="paper"` they do not exist.

## Layers of one operation

[All kinds of operations](#all-kinds-of-operations) has what their gradients read.

"""
CALLS = (
    "net.convolution(image, 32, 3, stride=2, padding=1)",
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
    "net.routed(rows, expert, 2, 1, 100)",
)


FIGURES = ("values", "FLOPs", "gradient reads")
KINDS = """

## All kinds of operations

- *gradient reads*: the operands, the result, or neither; and extra values of the node, in italics.
- *heavy*: a matrix product or a convolution.
- *in place*: the operation may [overwrite](theory/sharing.md) its first input, or a sum or difference
  either of its first two, if no later node reads that input; its gradient may overwrite the gradient that it reads.
  *gradient in place*: only the gradient may.
- *one bit*: gradients need only one bit per element of its value, which `--encode` keeps.

"""


def aligned_table(columns, rows):
    """A table in Markdown; columns of numbers to the right."""
    cells = [{str(row[i]) for row in rows} - {""} for i in range(len(columns))]
    numeric = [bool(column) and all(map(NUMBER.fullmatch, column)) for column in cells]
    return table(columns, rows, ["--:" if right else "---" for right in numeric])


# ---------------------------------------------------------------- the zoo


def zoo():
    """The page of the models."""
    notes = {}
    for family in list_families():
        for name in family.variants:
            if name in PUBLISHED and PUBLISHED[name].note:
                notes.setdefault(PUBLISHED[name].note, []).append(name)
    text = MODELS + "\n".join(f"- {', '.join(names)}: {note}." for note, names in notes.items()) + "\n"
    shared = "\n".join(f"- `{name}`: {said}" for name, said in WORDS.items())
    text += COMMON.format(settings=options(Settings), forms=forms(), updated=updated(), shared=shared)
    return text + "\n".join(section(family) for family in list_families())


def options(documented):
    """List the parameters of a numpydoc docstring, except those of `WORDS`."""
    texts, names = {}, ()
    lines = inspect.getdoc(documented).partition("\nParameters\n")[2].split("\n")[1:]
    for line in lines:
        if line and not line.startswith(" "):
            if " : " not in line:
                break
            names = tuple(name for name in line.split(" : ")[0].split(", ") if name != "net")
            texts[names] = []
        elif line.strip() and names:
            texts[names].append(line.strip())
    rows = [(", ".join(f"`{name}`" for name in names), " ".join(text)) for names, text in texts.items()]
    described = {name for names in texts for name in names}
    assert set(inspect.signature(documented).parameters) - described - {"net"} <= set(WORDS)
    return linked("\n".join(f"- {names}: {text}" for names, text in rows)) + "\n\n" if rows else ""


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
    """Count ResNet-200 as kumar2019 does."""
    graph = build("resnet200", granularity="primitive", optimizer="adam").graph
    return f"{graph.n_nodes:,} nodes and {graph.read_indices.size:,} reads"


def section(family):
    """What a family says of itself, its options, a small instance."""
    names = ", ".join(f"`{name}`" for name in family.variants)
    instance = "".join(f", {name}={value!r}" for name, value in SMALL[family.name].items())
    return f"""## {family.name}

{said_of(family.function)}

Models: {names}.

{options(family.function)}![{family.name}](figures/zoo_{family.name}.svg)

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
            ", ".join(properties(kind)),
            ", ".join(kind.aliases),
        )
        for kind in operation_kinds()
    ]
    columns = ("operation", "gradient reads", "properties", "also called")
    added = {call.removeprefix("net."): layer(call) for call in CALLS}
    single = {call: rows[0] for call, (_, rows) in added.items() if len(rows) == 1}
    several = {call.partition("(")[0] for call in added.keys() - single.keys()}  # described below
    text = LAYERS + aligned_table(
        ("call", "arguments", "what it adds", *FIGURES[:2]),
        [
            (
                f"`{call.partition('(')[0]}`",
                f"`({call.partition('(')[2]}`",
                "" if call.partition("(")[0] in several else what(added[call][0]),
                *row[2:4],
            )
            for call, row in single.items()
        ],
    )
    for call, (said, rows) in added.items():
        if len(rows) > 1:
            text += f"\n\n## {call}\n\n{said}\n\n{aligned_table(('node', 'operation', *FIGURES), rows)}"
    return text + KINDS + aligned_table(columns, kinds) + "\n"


def what(said):
    """Cut what the table of all kinds says from the description of a layer."""
    return " ".join(re.sub(r"; its gradient reads (?:[^.]|\.\w)*", "", said).split())


def reads(kind):
    own = [what for what, saved in zip(("its reads", "its values"), kind.saved(), strict=True) if saved]
    return ", ".join([*own, *(f"*{name}*" for name in kind.extra)])


def properties(kind):
    """What is heavy, what may be written over, and what needs one bit."""
    if kind.heavy:
        yield "heavy"
    if kind.in_place:
        yield "in place" if len(kind.in_place) == 1 else "in place (either read)"
    elif kind.gradient_in_place:
        yield "gradient in place"
    if kind.binarizable:
        yield "one bit"


def layer(call):
    """What a call is, and the rows of the nodes that it adds."""
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
    rows = [row(graph, v, net.layers[v]) for v in range(before, len(net.layers))]
    return said, rows


def row(graph, v, layer):
    """One operation."""
    first = int(graph.value_indptr[v])
    values = "<br>".join(
        f"{'' if k == 0 else graph.value_name(first + k) + ' '}{' x '.join(map(str, shape)) or 'a number'}"
        f"{'' if dtype == 'float32' else f', {dtype}'}"
        for k, (shape, dtype) in enumerate(zip(layer.shapes, layer.dtypes, strict=True))
    )
    words = [layer.op, *(["once"] if graph.once[v] else [])]
    saved = ", ".join(graph.value_name(x) for x in graph.backward.saved(v))
    return (
        layer.name,
        ", ".join(words),
        values,
        f"{layer.flops:,}",
        saved,
    )


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures").mkdir(exist_ok=True)
    (folder / "zoo.md").write_text(zoo(), encoding="utf-8")
    (folder / "layers.md").write_text(layers(), encoding="utf-8")
    draw(folder / "figures")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else DOCS)
