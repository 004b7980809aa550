"""Structure of graphs: lower sets, articulation values, tree and path decompositions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
