"""Output of the commands: JSON, plain columns for a pipe, or tables for a terminal."""

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


# Terminals.

STYLES: Mapping[str, str] = {
    **dict.fromkeys(("ok", "done", "delivered", "member", "block", "read"), "green"),
    **dict.fromkeys(("warn", "parked", "pause", "ramping", "unread"), "yellow"),
    **dict.fromkeys(("fail", "FAILED", "dead", "gone"), "bold red"),
    **dict.fromkeys(("in_flight", "deferred", "active", "pulled"), "cyan"),
    **dict.fromkeys(("planned", "none", "-", "0"), "dim"),
}
"""Style by the text of a whole cell. A color only repeats what the text says."""

CONTROL_CHARACTER_REPLACEMENTS = dict.fromkeys(
    [*range(0x20), 0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"
)
"""Replacements of control characters and direction overrides: users' text must not control the reader's terminal."""


def is_terminal(stream: TextIO | None = None) -> bool:
    """Return whether the stream is a terminal with cursor control, regardless of FORCE_COLOR."""
    stream = stream or sys.stdout
    return stream.isatty() and not console(stream).is_dumb_terminal


def console(stream: TextIO | None = None) -> "Console":
    from rich.console import Console

    stream = stream or sys.stdout
    return Console(file=stream, force_terminal=stream.isatty(), highlight=False, markup=False, emoji=False)


def without_control_characters(text: str) -> str:
    return text.translate(CONTROL_CHARACTER_REPLACEMENTS)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right_columns: Iterable[int] = ()) -> "Table":
    """Return a table whose last column wraps and is never truncated: it may contain a text such as a reason."""
    from rich.table import Table

    right_aligned = set(right_columns)
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, heading in enumerate(headings):
        is_last = index == len(headings) - 1
        result.add_column(
            heading, justify="right" if index in right_aligned else "left", no_wrap=not is_last, overflow="fold"
        )
    for row in rows:
        result.add_row(without_control_characters(row[0]), *(styled(cell) for cell in row[1:]))
    return result


def fields_grid(fields: Iterable[tuple[str, str]]) -> "Table":
    from rich.text import Text

    return grid((Text(name, style="dim"), styled(value)) for name, value in fields)


def grid(lines: Iterable[Sequence["Text"]]) -> "Table":
    """Return columns without headings. The last column wraps."""
    from rich.table import Table

    result = Table.grid(padding=(0, 2, 0, 0))
    for cells in lines:
        if not result.columns:
            for _ in cells[1:]:
                result.add_column(no_wrap=True)
            result.add_column(overflow="fold")
        result.add_row(*cells)
    return result


def styled(cell: str) -> "Text":
    from rich.text import Text

    return Text(without_control_characters(cell), style=STYLES.get(cell.strip(), ""))


def relative_time(moment: datetime, now: datetime | None = None) -> str:
    """Return the time relative to now, such as "in 19 min" or "3 s ago"."""
    seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    duration = duration_text(abs(seconds))
    return f"in {duration}" if seconds > 0 else f"{duration} ago"


def duration_text(seconds: float) -> str:
    """Return a duration such as "19 min". Durations below two minutes are in seconds."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


SHOWN_ID_LENGTH = 8
"""Number of characters of a random id that tables show. JSON has the whole id."""


def iso_time(moment: datetime) -> str:
    """Return a UTC time as ISO 8601 with milliseconds."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_time_or_none(moment: datetime | None) -> str | None:
    return None if moment is None else iso_time(moment)


def print_json(value: object) -> None:
    """Print JSON on one line for programs, or indented on a terminal."""
    if sys.stdout.isatty():
        click.echo(json.dumps(value, ensure_ascii=False, indent=2))
    else:
        click.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def print_lines(values: Iterable[Mapping[str, object]]) -> None:
    """Print one JSON object per line, in constant memory."""
    write = sys.stdout.write
    for value in values:
        write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def print_sentence(text: str) -> None:
    """Print a sentence. On a terminal it wraps between words."""
    if is_terminal():
        console().print(styled(text))
    else:
        click.echo(without_control_characters(text))


def print_fields(fields: Mapping[str, object]) -> None:
    """Print one name and value per line, aligned. Leave out values that are None."""
    cells = {name: cell(value) for name, value in fields.items() if value is not None}
    if is_terminal():
        console().print(fields_grid(cells.items()))
        return
    width = max((len(name) for name in cells), default=0)
    for name, value in cells.items():
        click.echo(f"{name:<{width}}  {value}")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns. On a terminal, times are relative to now."""
    table_rows = [tuple(row) for row in rows]
    right_columns = [
        i for i in range(len(headings)) if table_rows and all(_is_number(cell(row[i])) for row in table_rows)
    ]
    if is_terminal():
        relative_rows = [[_relative_cell(value) for value in row] for row in table_rows]
        console().print(table(headings, relative_rows, right_columns=right_columns))
        return
    lines = [tuple(headings), *(tuple(cell(value) for value in row) for row in table_rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    for line in lines:
        cells = [
            text.rjust(width) if i in right_columns else text.ljust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case datetime():
            return iso_time(value)
        case _:
            return without_control_characters(str(value))


def _relative_cell(value: object) -> str:
    return relative_time(value) if isinstance(value, datetime) else cell(value)


def _is_number(text: str) -> bool:
    return text.replace(",", "").isdecimal()


# Result of checks with `--json`. The format is stable, because external tools rely on it.

CHECK_SCHEMA = "notifier.check/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Result of one check, as an item of the JSON."""

    name: str
    ok: bool
    value: float | int | str | None = None
    limit: float | int | str | None = None
    unit: str = ""
    n: int = 1
    """Number of observations that the value is based on."""
    detail: str = ""


def envelope(profile: str, seed: int | None, checks: Sequence[Check]) -> dict[str, object]:
    """Return the JSON report of the checks. An empty list of checks is a failure."""
    return {
        "schema": CHECK_SCHEMA,
        "profile": profile,
        "seed": seed,
        "machine": machine_json(),
        "checks": [asdict(check) for check in checks],
        "ok": bool(checks) and all(check.ok for check in checks),
    }


def machine_json() -> dict[str, object]:
    return {"system": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}


# Progress bars.


class Advance(Protocol):
    """Callback that advances a progress bar."""

    def __call__(self, steps: int, items: int | None = None) -> None:
        """Advance the bar by `steps`. The rate that it shows counts `items`, or `steps` if `items` is None."""
        ...


@contextmanager
def progress(title: str, total_steps: int | None, *, quiet: bool, unit: str = "") -> Iterator[Advance]:
    """Show a progress bar on a terminal, and nothing elsewhere. `unit` names the items whose rate is shown."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    visible = not quiet and is_terminal(sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"), TimeElapsedColumn())
    remaining = (TextColumn("left"), TimeRemainingColumn()) if unit and total_steps is not None else ()
    with Progress(*columns, *remaining, console=console(sys.stderr), transient=True, disable=not visible) as bar:
        task, items_done = bar.add_task(title, total=total_steps, rate=""), 0

        def advance(steps: int, items: int | None = None) -> None:
            nonlocal items_done
            items_done += steps if items is None else items
            elapsed = bar.tasks[task].elapsed or 0
            rate = f"{items_done:,} {unit}, {items_done / elapsed:,.0f}/s" if unit and elapsed else ""
            bar.update(task, advance=steps, rate=rate)

        yield advance
