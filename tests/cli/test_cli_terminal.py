"""The help, the output on a terminal and in a pipe, and the errors of `privmix`."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from privmix.cli import main
from privmix.cli.arguments import build_parser

FOLDER = Path(__file__).parents[2] / "data" / "catalog"
COMMANDS = [
    [],
    ["catalog"],
    *(["catalog", verb] for verb in ("list", "show", "check", "page")),
    ["release"],
    ["verify"],
    ["epsilon"],
    ["schema"],
]


def on_terminal(*words: str, columns: int = 80, **environment: str) -> tuple[str, int]:
    """Run a command on a pseudo-terminal. Return its output, stderr included, and its exit status."""
    master, slave = pty.openpty()
    settings = {"TERM": "xterm-256color", "COLUMNS": str(columns), **environment}
    variables = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    with subprocess.Popen(
        [sys.executable, "-m", "privmix.cli", *words], stdout=slave, stderr=slave, stdin=slave, close_fds=True,
        env={**variables, **settings},
    ) as process:  # fmt: skip
        os.close(slave)
        parts = []
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
    os.close(master)
    return b"".join(parts).decode().replace("\r\n", "\n"), process.returncode


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words) or "privmix")
def test_help_states_the_purpose_and_ends_with_an_example(words, capsys):
    with pytest.raises(SystemExit) as end:
        main([*words, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    purpose = text.split("\n\n")[1]
    assert purpose[0].isupper()
    assert purpose.endswith(".")
    last = text.rstrip().splitlines()
    assert last[-1].startswith(f"  {' '.join(['privmix', *words])}")
    assert any(line in ("example:", "examples:") for line in last)
    assert all(len(line) <= 100 for line in last)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words) or "privmix")
def test_the_examples_of_the_help_are_valid_commands(words, capsys):
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    lines = capsys.readouterr().out.rstrip().splitlines()
    examples = [line.split(" > ")[0].split() for line in lines if line.startswith("  privmix ")]
    assert examples
    for example in examples:
        assert build_parser().parse_args(example[1:]).call


def test_help_imports_no_heavy_module():
    code = (
        "import sys\n"
        "from privmix.cli.arguments import build_parser\n"
        "build_parser().format_help()\n"
        "print({'numpy', 'pandas', 'snakemake', 'matplotlib', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("stage", ["download", "clean", "privatise", "fit", "evaluate", "naive", "audit"])
def test_no_stage_of_a_sweep_imports_rich(stage):
    code = f"import sys, privmix.pipeline.stages.{stage}; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_terminal_gets_colours_and_a_next_step():
    text, status = on_terminal("catalog", "list", "--catalog", str(FOLDER))
    assert status == 0
    assert "\x1b[" in text
    assert "privmix catalog show NAME" in text


def test_no_color_is_respected():
    text, _ = on_terminal("catalog", "list", "--catalog", str(FOLDER), NO_COLOR="1")
    assert "\x1b[3" not in text


@pytest.mark.parametrize("columns", [80, 120])
def test_show_fits_the_terminal(columns):
    text, _ = on_terminal(
        "catalog", "show", "gowalla", "--catalog", str(FOLDER), columns=columns, TERM="dumb"
    )
    lines = text.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0].startswith("╭─ gowalla ─")


def test_an_error_on_a_terminal_is_one_red_sentence():
    text, status = on_terminal("verify", "nowhere")
    assert status == 1
    assert text.startswith("\x1b[1;31mError: \x1b[0mnowhere is not a folder; ")
    assert text.count("\n") == 1


def test_an_error_in_a_log_is_one_plain_sentence(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "privmix.cli", "verify", str(tmp_path / "nowhere")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("privmix verify: ")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr
