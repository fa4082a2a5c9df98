"""What the explorer's tests look at."""

import pytest

from torpor.explore import read


@pytest.fixture(scope="session")
def trace(fusion):
    """The trace of the documents' fusion example."""
    return read(fusion)
