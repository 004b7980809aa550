"""Words that readers type into the search box, and the section that answers each.

Sphinx ranks a page by the words of its titles and counts no synonyms. A main entry of the index comes first instead.
"""

from docutils import nodes
from sphinx import addnodes
from sphinx.errors import ExtensionError

# Page and, after #, its section.
WORDS = {
    "bring#an-edge-list-or-tables": ("edge list", "graph file", "make a graph", "make a graph file"),
    "cli#remat-fit": ("largest batch", "batch size"),
    "cli#remat-width": ("treewidth",),
    "contributing#a-solver-is-one-file": ("add a solver", "custom solver", "own solver", "write a solver"),
    "faq#how-good-is-the-plan": ("lower bound", "bound", "gap", "optimal"),
    "faq#what-does-the-budget-count": ("budget", "residents"),
    "faq#what-do-i-do-when-training-runs-out-of-memory": ("out of memory", "CUDA out of memory", "OOM"),
    "faq#why-is-my-budget-infeasible": ("infeasible", "infeasible budget", "BudgetError"),
    "index": ("activation checkpointing", "gradient checkpointing", "rematerialization", "recomputation"),
    "index#install": ("install", "installation", "checkout", "git clone", "license", "repository"),
    "jax": ("JAX", "jaxpr"),
    "notation": ("glossary", "symbols", "terms"),
    "offload": ("offload", "offloading", "CPU offloading", "swap"),
    "onnx#onnx": ("ONNX",),
    "onnx#stablehlo": ("StableHLO",),
    "solvers/index#which-solver": ("which solver", "choose a solver", "solver"),
    "theory/lower_sets": ("dynamic programming",),
    "torch": ("torch.compile", "compiled backend"),
    "torch_training": (
        "activation checkpointing",
        "gradient checkpointing",
        "selective activation checkpointing",
        "plan_checkpoints",
        "PyTorch",
        "torch",
    ),
    "torch_training#autocast": ("mixed precision", "autocast", "AMP"),
    "torch_training#fsdp2": ("FSDP", "FSDP2", "fully_shard", "FullyShardedDataParallel"),
    "tutorials/0_why": ("rematerialization",),
    "tutorials/3_separators#bags-and-width": ("treewidth",),
}


def add_words(app, doctree):
    """Add the words of the page that was read to its index, each with the address of its section."""
    page = app.env.current_document.docname
    for place, words in WORDS.items():
        name, _, anchor = place.partition("#")
        if name != page:
            continue
        sections = list(doctree.findall(nodes.section))
        section = next((s for s in sections if anchor in s["ids"]), None) if anchor else sections[0]
        if section is None:
            raise ExtensionError(f"docs/search_words.py: {name} has no section {anchor}")
        target = section["ids"][0] if anchor else ""
        section.insert(1, addnodes.index(entries=[("single", word, target, "main", None) for word in words]))


def written_again(app, env):
    """Pages with words are written by every build: Sphinx drops the index entries of pages that it does not write."""
    return {place.partition("#")[0] for place in WORDS}


def setup(app):
    app.connect("doctree-read", add_words)
    app.connect("env-updated", written_again)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
