"""References to models, such as model:resnet50?batch=96&dtype=float16."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from remat_algos.errors import GraphError

PREFIX = "model:"


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a model that can be set by a string; `own` if it belongs to the family, not to `Settings`."""

    name: str
    kind: str
    default: Any
    own: bool
    choices: tuple[str, ...] = ()

    def read(self, text: str) -> Any:
        """Parse a string; return it unchanged if the type is wrong, so that `build` rejects it."""
        word = text.strip().lower()
        if "None" in self.kind and word == "none":
            return None
        if self.kind.startswith("bool"):
            return {"true": True, "false": False}.get(word, text)
        with contextlib.suppress(ValueError):
            if self.kind.startswith("tuple"):
                return tuple(int(part) for part in word.strip("()[]").split(",") if part.strip())
            if self.kind.startswith("int"):
                return int(word)
        return text

    @property
    def written(self) -> str:
        """The default value as a string."""
        if isinstance(self.default, tuple | list):
            return ",".join(map(str, self.default))
        return (
            str(self.default).lower() if self.default is None or isinstance(self.default, bool) else str(self.default)
        )

    @property
    def allowed(self) -> str:
        """A description of the allowed values."""
        if self.choices:
            return ", ".join(self.choices)
        kinds = {"int |": "a number or a size", "int": "a number", "bool": "true, false", "tuple": "numbers: 3,4,6,3"}
        text = next((words for kind, words in kinds.items() if self.kind.startswith(kind)), "a name")
        return f"{text}, or none" if "None" in self.kind else text


def is_reference(text: str) -> bool:
    """Return True if a string names a model, not a file."""
    return text.startswith(PREFIX)


def split_reference(text: str) -> tuple[str, dict[str, str]]:
    """Split a reference, with or without `model:`, into the model and {option: string}; `%26` means an ampersand."""
    model, _, query = text.removeprefix(PREFIX).partition("?")
    model = unquote(model)
    texts: dict[str, str] = {}
    for word in query.split("&") if query else []:
        name, equals, value = map(unquote, word.partition("="))
        if not equals or not name:
            raise GraphError(
                "{model}: {word!r} is not an option; write {prefix!w}{model}?{name}=VALUE",
                model=model,
                word=word,
                prefix=PREFIX,
                name=name or "batch",
            )
        if name in texts:
            raise GraphError("{model}: {name!w} is given twice; leave one out", model=model, name=name)
        texts[name] = value
    return model, texts
