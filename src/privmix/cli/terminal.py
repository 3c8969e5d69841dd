"""Terminal output: coloured tables on a terminal, plain text of a fixed width in a pipe or log."""

import io
import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 100  # columns where stdout is no terminal
UNLIMITED = 10_000

Field = tuple[str, str | Text]


def console() -> Console:
    """Return the console of stdout. It prints a question mark for letters that its encoding does not have."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    made = Console(highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = PLAIN_WIDTH
    return made


def error_console() -> Console:
    """Return the console of stderr."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_error(sentence: str) -> None:
    """Print an error on the terminal."""
    error_console().print(Text.assemble(("Error: ", "bold red"), sentence), soft_wrap=True)


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[str] = (),
    wrapped: Sequence[str] = (),
) -> None:
    """Print a table. `right` names the columns aligned to the right, `wrapped` those that wrap on a narrow terminal.

    Outside a terminal every row is one whole line, so programs can read it.
    """
    out = console()
    table = Table(
        box=box.SIMPLE_HEAD if out.is_terminal else None,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1 if out.is_terminal else 2, 0, 0),
        header_style="bold",
    )
    for number, heading in enumerate(headings):
        table.add_column(
            heading,
            justify="right" if heading in right else "left",
            style="cyan" if number == 0 else "",
            no_wrap=heading not in wrapped or not out.is_terminal,
        )
    for row in rows:
        table.add_row(*map(Text, row))
    _print(out, table, wrap=False)


def print_fields(fields: Iterable[Field]) -> None:
    """Print labels and values in two columns. Outside a terminal no word is broken."""
    out = console()
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in fields:
        table.add_row(label, value if isinstance(value, Text) else Text(value))
    _print(out, table, wrap=True)


def _print(out: Console, content: RenderableType, *, wrap: bool) -> None:
    """Print a table or text. Outside a terminal, widen the console to the longest word and strip the lines."""
    if out.is_terminal:
        out.print(content)
        return
    size = Measurement.get(out, out.options.update(max_width=UNLIMITED), content)
    out.width = max(PLAIN_WIDTH, size.minimum if wrap else size.maximum)
    with out.capture() as captured:
        out.print(content)
    for line in captured.get().splitlines():
        print(line.rstrip())


def print_panel(name: str, title: str, text: str) -> None:
    """Print the name, title and description of something that is then described by fields."""
    out = console()
    if out.is_terminal:
        content = Text.assemble((title, "bold"), "\n", text)
        out.print(Panel(content, title=Text(name, style="bold cyan"), title_align="left", box=box.ROUNDED))
    else:
        _print(out, Text(f"{name}: {title}\n{text}\n"), wrap=True)


def print_heading(text: str) -> None:
    """Print a heading over the fields below it."""
    console().print(Text(f"\n{text}", style="bold cyan"), soft_wrap=True)


def print_success(sentence: str) -> None:
    """Print the result of a command that succeeded."""
    console().print(Text.assemble(("✓ ", "bold green"), sentence), soft_wrap=True)
    sys.stdout.flush()


def print_next(sentence: str) -> None:
    """Print what the user can do next."""
    console().print(Text.assemble(("Next: ", "bold"), sentence), soft_wrap=True)


def link(url: str) -> Text:
    """Return a URL that a terminal opens on a click."""
    return Text(url, style=f"link {url}") if url else Text()
