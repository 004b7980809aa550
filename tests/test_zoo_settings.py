"""Unknown choices, models and options: the nearest is offered."""

import pytest

from remat_algos.errors import GraphError
from remat_algos.zoo.registry import build
from remat_algos.zoo.settings import Settings


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"dtype": "float23"}, "float32"),
        ({"dtype": "int64"}, "dtype is 'int64', which has no gradients; use float32, float16 or bfloat16"),
        ({"dropout": "singel"}, "dropout is 'singel'; did you mean single?"),
        ({"counting": "papers"}, "counting is 'papers'; did you mean paper?"),
        ({"granularity": "layers"}, "granularity is 'layers'; did you mean layer?"),
        ({"cost": "flop"}, "cost is 'flop'; did you mean flops?"),
        ({"optimizer": "adma"}, "optimizer is 'adma'; did you mean adam or adamw?"),
        ({"parameter_gradients": 1}, "parameter_gradients is 1; give True or False"),
        ({"workspace": "much"}, "workspace is 'much'; give bytes, or a size such as 64MiB"),
        ({"workspace": -1}, "workspace is -1; give bytes, or a size such as 64MiB"),
        ({"cost": "roofline", "device": "A1000"}, "A100"),
    ],
)
def test_an_unknown_choice_is_refused_and_the_nearest_offered(settings, sentence):
    with pytest.raises(GraphError) as error:
        Settings(**settings)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_choice_that_is_no_text_is_a_wrong_kind():
    with pytest.raises(TypeError, match=r"^granularity is 3; give a text, such as 'operation'$"):
        Settings(granularity=3)
    with pytest.raises(TypeError, match=r"^model is 50; give a text$"):
        build(50)


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        ("googlnet", {}, "no model is called 'googlnet'; did you mean googlenet"),
        ("warp", {}, "no model is called 'warp'; there are the families "),
        ("resnet50", {"bacth": 8}, "resnet50 has no option 'bacth'; did you mean batch?"),
        ("resnet50", {"granularty": "layer"}, "resnet50 has no option 'granularty'; did you mean granularity?"),
        ("resnet50", {"batch": 0}, "resnet50: batch is 0; give a whole number from 1 on"),
        ("resnet50", {"batch": -1}, "resnet50: batch is -1; give a whole number from 1 on"),
        ("resnet50", {"batch": "8"}, "resnet50: batch is '8'; give a whole number from 1 on"),
        ("resnet50", {"batch": True}, "resnet50: batch is True; give a whole number from 1 on"),
        ("resnet50", {"batch": 2.5}, "resnet50: batch is 2.5; give a whole number from 1 on"),
        ("resnet50", {"batch": None}, "resnet50: batch is None; give a whole number from 1 on"),
        ("resnet50", {"dtype": "float23"}, "float32"),
        ("resnet50", {"optimizer": "adma"}, "did you mean adam or adamw?"),
    ],
)
def test_a_wrong_model_or_option_is_refused_and_the_nearest_offered(model, options, sentence):
    with pytest.raises(GraphError) as error:
        build(model, **options)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
