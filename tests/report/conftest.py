"""A made-up run and its page, shared by all tests that only read them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import made_up_run
import pytest


@dataclass(frozen=True)
class Rendered:
    """A run on disk and its page."""

    root: Path
    configuration: dict[str, Any]
    html: str


@pytest.fixture(scope="session")
def rendered(tmp_path_factory) -> Rendered:
    root = tmp_path_factory.mktemp("made_up")
    configuration = made_up_run.write_run(root)
    return Rendered(root, configuration, made_up_run.render(root, configuration))
