# Written by docs/stubs.py.
from remat_algos.structure.elimination import Elimination as Elimination
from remat_algos.structure.elimination import eliminate as eliminate
from remat_algos.structure.lower_set_families import LowerSetFamily as LowerSetFamily
from remat_algos.structure.lower_set_families import lower_set_family as lower_set_family
from remat_algos.structure.lower_sets import LowerSets as LowerSets
from remat_algos.structure.path_decomposition import PathDecomposition as PathDecomposition
from remat_algos.structure.separators import SeparatorTree as SeparatorTree
from remat_algos.structure.tree_decomposition import TreeDecomposition as TreeDecomposition
from remat_algos.structure.treewidth import WidthBounds as WidthBounds
from remat_algos.structure.treewidth import width_bounds as width_bounds
from remat_algos.structure.undirected import UndirectedGraph as UndirectedGraph
