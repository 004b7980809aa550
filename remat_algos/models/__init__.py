"""Networks with real shapes, and synthetic graphs."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "registry": "build list_models",
        "network": "Network",
        "layers": "Layers",
        "settings": "Settings",
    },
    "random",
)
