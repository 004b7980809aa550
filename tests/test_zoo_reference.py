"""Models named by a line of text: what it reads is what was meant, or one sentence says what is wrong."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.errors import GraphError
from remat_algos.zoo import registry
from remat_algos.zoo.reference import Option, is_reference
from remat_algos.zoo.registry import Family, build, list_families, list_models, options_of, read_reference
from remat_algos.zoo.settings import CHOICES, Settings
from tests.raising import raises


def option(kind):
    return Option("x", kind, None, True)


# One value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "96", 96),
        ("int", " 96 ", 96),
        ("int", "-1", -1),
        ("int", "1e3", "1e3"),
        ("int", "many", "many"),
        ("int", "9" * 5000, "9" * 5000),
        ("int | None", "none", None),
        ("int | None", "7", 7),
        ("int | str", "64MiB", "64MiB"),
        ("int | str", "0", 0),
        ("bool", "true", True),
        ("bool", "False", False),
        ("bool", "1", "1"),
        ("str", "none", "none"),
        ("str", " a b ", " a b "),
        ("str | Device | None", "None", None),
        ("str | Device | None", "a100", "a100"),
        ("tuple[int, ...]", "3,4,6,3", (3, 4, 6, 3)),
        ("tuple[int, ...]", "(3, 4, 6, 3)", (3, 4, 6, 3)),
        ("tuple[int, ...]", "3", (3,)),
        ("tuple[int, ...]", "3,x", "3,x"),
        ("tuple[int, ...] | None", "none", None),
    ],
)
def test_a_text_means_a_value_of_the_type_of_its_option_or_itself(kind, text, value):
    found = option(kind).read(text)
    assert (type(found), found) == (type(value), value)


def test_the_written_default_of_every_option_means_the_default():
    for model in (*list_models(), *(family.name for family in list_families())):
        for known in options_of(model).values():
            default = tuple(known.default) if isinstance(known.default, list) else known.default
            assert known.read(known.written) == default, model
            assert known.allowed


def test_every_option_of_build_can_be_set_by_text():
    family = registry.get_family("resnet50")
    assert list(options_of("resnet50")) == [*family.options, *Settings.names()]
    assert options_of("resnet50")["depth"].default == 50
    assert options_of("resnet18")["bottleneck"].default is False
    assert all(options_of("vgg19")[name].choices == choices for name, choices in CHOICES.items())


# A whole line


def test_a_model_is_told_from_a_file():
    assert is_reference("model:resnet50")
    assert not any(map(is_reference, ("resnet50", "./model:resnet50", "Model:resnet50", "model/resnet50.json", "")))


def test_a_reference_names_a_model_and_options():
    text = "model:resnet?depth=18&bottleneck=false&stages=2,2,2,2&dtype=float16&device=none&workspace=1KiB"
    options = {"depth": 18, "bottleneck": False, "stages": (2, 2, 2, 2), "dtype": "float16", "device": None}
    assert read_reference(text) == ("resnet", {**options, "workspace": "1KiB"})
    assert read_reference("vgg19") == ("vgg19", {})
    assert read_reference("model:vgg19?") == ("vgg19", {})


@given(st.dictionaries(st.sampled_from(["device", "dtype", "cost", "optimizer"]), st.text(max_size=20)))
def test_any_text_comes_back_as_it_was_written(texts):
    meant = {name: options_of("vgg19")[name].read(text) for name, text in texts.items()}
    query = "&".join(f"{name}={quote(text)}" for name, text in texts.items())
    assert read_reference(f"model:vgg19?{query}") == ("vgg19", meant)


def test_the_network_is_the_one_that_python_builds():
    named = build("model:resnet20?batch=4&dtype=float16&stages=1,1,1")
    assert named.graph.hash == build("resnet20", batch=4, dtype="float16", stages=(1, 1, 1)).graph.hash
    assert named.graph.hash != build("resnet20", batch=4, stages=(1, 1, 1)).graph.hash


@pytest.mark.parametrize("text", ["vgg11?batch=2&image=32", "model:vgg11?batch=2&image=32"])
def test_options_of_a_text_and_of_the_call_are_one(text):
    whole = build("vgg11", batch=2, image=32, dtype="float16").graph.hash
    assert build(text, dtype="float16").graph.hash == build(f"{text}&dtype=float16").graph.hash == whole
    with pytest.raises(GraphError, match=r"^vgg11: batch is given twice; leave one out$"):
        build(text, batch=2)


def test_the_face_builds_models():
    assert ra.zoo.build("resnet20", batch=2).graph.hash == build("model:resnet20?batch=2").graph.hash
    assert isinstance(ra.zoo.build("resnet20", batch=2), ra.zoo.Network)
    assert "resnet20" in ra.zoo.list_models()


# What is wrong


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("model:", {"model": ""}),
        ("model:?batch=2", {"model": ""}),
        ("model:resnet5O", {"model": "resnet5O"}),
        ("model:vgg19?batch", {"word": "batch", "name": "batch"}),
        ("model:vgg19?=3", {"word": "=3"}),
        ("model:vgg19?batch=2&&image=32", {"word": ""}),
        ("model:vgg19?batch=2&image=32&batch=3", {"name": "batch"}),
        ("model:vgg19?bacth=2", {"name": "bacth", "offer": "did you mean batch?"}),
        ("model:vgg19?batch=-3", {"name": "batch", "value": -3}),
        ("model:vgg19?batch=2.5", {"name": "batch", "value": "2.5"}),
        ("model:vgg19?batch=", {"name": "batch", "value": ""}),
        ("model:vgg19?norm=yes", {"name": "norm", "value": "yes"}),
        ("model:vgg19?stages=1,x", {"name": "stages", "value": "1,x"}),
        ("model:vgg19?dtype=float17", {"name": "float17"}),
        ("model:vgg19?dropout=sing", {"name": "dropout", "chosen": "sing"}),
        ("model:vgg19?parameter_gradients=2", {"parameter_gradients": "2"}),
        ("model:vgg19?workspace=much", {"workspace": "much"}),
    ],
)
def test_what_is_wrong_is_an_error_of_that(text, fields):
    with raises(GraphError, **fields):
        build(text)


@given(st.text(max_size=30))
def test_no_text_is_more_than_an_error(text):
    try:
        model, options = read_reference(f"model:vgg11?{text}")
    except GraphError:
        return
    assert model == "vgg11"
    assert all(isinstance(name, str) for name in options)


def test_an_option_may_be_one_that_is_none_by_default(monkeypatch):
    def toy(net, *, batch: "int" = 1, heads: "int | None" = None) -> None:
        """A toy."""

    family = Family(toy, {"toy_small": {"heads": 2}}, {})
    monkeypatch.setattr(registry, "list_families", lambda: [family])
    assert read_reference("model:toy?heads=none&batch=3") == ("toy", {"heads": None, "batch": 3})
    assert options_of("toy_small")["heads"].written == "2"
    assert options_of("toy")["heads"].written == "none"
