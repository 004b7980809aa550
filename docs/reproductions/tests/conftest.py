"""The settings of all tests."""

import tests.conftest  # noqa: F401
