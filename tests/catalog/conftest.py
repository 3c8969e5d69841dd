"""Fixtures of the catalog tests."""

from collections.abc import Iterator

import pytest
from catalog_server import Server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Yield a loopback server, reached directly without any proxy of this machine."""
    monkeypatch.setenv("no_proxy", "*")
    running = Server()
    yield running
    running.shutdown()
    running.server_close()
