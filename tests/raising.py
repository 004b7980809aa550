"""What an error holds, in place of what it says: sentences are tested once, in `tests/sentences.txt`."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest


@contextmanager
def raises(kind: type[Exception], /, **fields: Any) -> Iterator[pytest.ExceptionInfo[Any]]:
    """An error of exactly this type is raised, and these of its fields are equal to those given."""
    with pytest.raises(kind) as caught:
        yield caught
    assert type(caught.value) is kind
    assert {name: caught.value.fields.get(name, "no such field") for name in fields} == fields, str(caught.value)


def refused(kind: type[Exception], fault: str | dict[str, Any]) -> AbstractContextManager[pytest.ExceptionInfo[Any]]:
    """`raises` for a row of a table: its fields, or a few words of an error that has none."""
    return pytest.raises(kind, match=re.escape(fault)) if isinstance(fault, str) else raises(kind, **fault)
