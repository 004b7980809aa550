# Written by docs/stubs.py.
from remat_algos.models import random as random
from remat_algos.models.layers import Layers as Layers
from remat_algos.models.network import Network as Network
from remat_algos.models.registry import build as build
from remat_algos.models.registry import list_models as list_models
from remat_algos.models.settings import Settings as Settings
