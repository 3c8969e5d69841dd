"""What the tests of the catalog share."""

from collections.abc import Iterator

import pytest
from catalog_server import Server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A loopback server, reached directly whatever proxy this machine is told to use."""
    monkeypatch.setenv("no_proxy", "*")
    running = Server()
    yield running
    running.shutdown()
    running.server_close()
