"""Names that examples in docstrings use without an import."""

from typing import Any

import pytest

import torpor


@pytest.fixture(autouse=True)
def names_of_examples(doctest_namespace: dict[str, Any]) -> None:
    """Add them to what every example sees."""
    doctest_namespace |= {"Tensor": torpor.Tensor, "dtypes": torpor.dtypes, "torpor": torpor}
