"""The public names: those of `remat_algos` and of its namespaces, which stand behind a dot."""

from numbers import Real
from types import ModuleType

import remat_algos as ra

NAMESPACES = {name: getattr(ra, name) for name in ra.__all__ if isinstance(getattr(ra, name), ModuleType)}
TOP = {name: getattr(ra, name) for name in ra.__all__ if name not in NAMESPACES}
PUBLIC = TOP | {
    f"{room}.{name}": getattr(namespace, name)
    for room, namespace in NAMESPACES.items()
    for name in namespace.__all__
    if getattr(namespace, name) is not TOP.get(name) and not isinstance(getattr(namespace, name), ModuleType)
}


def refusal(argument, own):
    """The class of error for what is no whole number, or for one outside its range, which is the function's `own`."""
    if isinstance(argument, bool) or not isinstance(argument, Real):
        return TypeError
    return own if float(argument).is_integer() else ValueError
