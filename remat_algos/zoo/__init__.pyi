from . import random as random
from .layers import Layers as Layers
from .network import Network as Network
from .registry import build as build
from .registry import list_models as list_models
from .settings import Settings as Settings
