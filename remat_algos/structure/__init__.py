"""Structure of graphs: lower sets, articulation values, tree decompositions."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "lower_sets": "LowerSets",
        "lower_set_families": "LowerSetFamily lower_set_family",
        "undirected": "UndirectedGraph",
        "treewidth": "WidthBounds width_bounds",
        "elimination": "Elimination eliminate",
        "tree_decomposition": "TreeDecomposition",
        "path_decomposition": "PathDecomposition",
        "separators": "SeparatorTree",
    },
)
