"""Small models of many kinds, each with what is special about it for a planner: `CASES` has them by name."""

from tests.interop.torch_zoo import calls, images, sequences, transformers, vectors  # each adds its models
from tests.interop.torch_zoo.cases import CASES, make

__all__ = ["CASES", "calls", "images", "make", "sequences", "transformers", "vectors"]
