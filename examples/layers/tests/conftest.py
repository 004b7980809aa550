"""Hypothesis draws as in `tests`, also where these tests run alone."""

import tests.conftest  # noqa: F401
