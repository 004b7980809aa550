"""Unknown choices, models and options: the nearest is offered."""

import pytest

from remat_algos.errors import GraphError
from remat_algos.zoo.registry import build
from remat_algos.zoo.settings import Settings
from tests.raising import raises


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({"dtype": "float23"}, {"name": "float23"}),
        ({"dtype": "int64"}, {"dtype": "int64"}),
        ({"dropout": "singel"}, {"name": "dropout", "offer": "did you mean single?"}),
        ({"counting": "papers"}, {"name": "counting", "offer": "did you mean paper?"}),
        ({"granularity": "layers"}, {"name": "granularity", "offer": "did you mean layer?"}),
        ({"cost": "flop"}, {"name": "cost", "offer": "did you mean flops?"}),
        ({"optimizer": "adma"}, {"name": "optimizer", "offer": "did you mean adam or adamw?"}),
        ({"parameter_gradients": 1}, {"parameter_gradients": 1}),
        ({"workspace": "much"}, {"workspace": "much"}),
        ({"workspace": -1}, {"workspace": -1}),
        ({"cost": "roofline", "device": "A1000"}, {"what": "device", "name": "A1000"}),
    ],
)
def test_an_unknown_choice_is_refused_and_the_nearest_offered(settings, fields):
    with raises(GraphError, **fields):
        Settings(**settings)
    with raises(GraphError, **fields):
        build("resnet50", **settings)


def test_a_choice_that_is_no_text_is_a_wrong_kind():
    with pytest.raises(TypeError, match="granularity is 3"):
        Settings(granularity=3)
    with pytest.raises(TypeError, match="model is 50"):
        build(50)


@pytest.mark.parametrize(
    ("model", "options", "fields"),
    [
        ("googlnet", {}, {"model": "googlnet", "offer": "did you mean googlenet or googlenet_bn or unet?"}),
        ("warp", {}, {"model": "warp"}),
        ("resnet50", {"bacth": 8}, {"name": "bacth", "offer": "did you mean batch?"}),
        ("resnet50", {"granularty": "layer"}, {"name": "granularty", "offer": "did you mean granularity?"}),
        *(("resnet50", {"batch": batch}, {"name": "batch", "value": batch}) for batch in (0, -1, "8", True, 2.5, None)),
        ("vgg19", {"batch": 10**30}, {"model": "vgg19"}),
    ],
)
def test_a_wrong_model_or_option_is_refused_and_the_nearest_offered(model, options, fields):
    with raises(GraphError, **fields):
        build(model, **options)
