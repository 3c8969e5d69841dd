"""The configuration of a command: `config/config.yaml`, overridden by the file of `--configfile` as in Snakemake."""

from pathlib import Path
from typing import Any

from snakemake.utils import update_config

from privmix.catalog.entry import read_yaml
from privmix.cli.arguments import CONFIGURATION
from privmix.errors import UserError


def read_configuration(override: Path | None) -> dict[str, Any]:
    """Return the configuration, key by key from the override if it has the key."""
    configuration: dict[str, Any] = {}
    for path in filter(None, (CONFIGURATION, override)):
        content = read_yaml(path, "configuration") or {}
        if not isinstance(content, dict):
            raise UserError(
                f"{path}: a configuration is a mapping of keys to values, such as `datasets: [mine]`."
            )
        update_config(configuration, content)
    return configuration
