"""What the explorer's tests look at."""

import pytest

from tests import chromium
from torpor.explore import Server, read


@pytest.fixture(scope="session")
def trace(fusion):
    """The trace of the documents' fusion example."""
    return read(fusion)


@pytest.fixture(scope="module")
def browser():
    """A page in Chromium."""
    with chromium.Chromium() as one:
        yield one


@pytest.fixture(scope="module")
def server(fusion):
    """Serves the trace of the documents' fusion example."""
    one = Server(read(fusion))
    yield one
    one.close()


@pytest.fixture
def quiet(browser, server):
    """Nothing fails in the page, and nothing is asked of anybody else."""
    browser.complaints.clear()
    browser.asked.clear()
    yield
    assert browser.complaints == []
    own = (server.address, "about:blank", "data:")
    assert [url for url in browser.asked if not url.startswith((*own, "http://127.0.0.1:"))] == []
