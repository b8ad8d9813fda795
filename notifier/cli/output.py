"""How facts are printed: JSON, columns that a pipe can cut, or what a terminal shows of the same."""

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


# What a terminal shows: tables and sentences that fit its width, with colours unless NO_COLOR says otherwise.

STYLES: Mapping[str, str] = {
    **dict.fromkeys(("ok", "done", "delivered", "member", "block", "read"), "green"),
    **dict.fromkeys(("warn", "parked", "pause", "ramping", "unread"), "yellow"),
    **dict.fromkeys(("fail", "FAILED", "dead", "gone"), "bold red"),
    **dict.fromkeys(("in_flight", "waiting", "active", "pulled"), "cyan"),
    **dict.fromkeys(("planned", "none", "-", "0"), "dim"),
}
"""By the whole of a cell: a colour repeats what the word says already."""

HARMFUL = dict.fromkeys(
    [*range(0x20), 0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"
)
"""Control characters and overrides of direction: what people write must not steer the terminal of who reads it."""


def watched(stream: TextIO | None = None) -> bool:
    """Whether somebody looks at it: a terminal that can be drawn on. A pipe never is one, whatever its environment."""
    stream = stream or sys.stdout
    return stream.isatty() and not console(stream).is_dumb_terminal


def console(stream: TextIO | None = None) -> "Console":
    """Of a terminal; made anew, because its width changes."""
    from rich.console import Console

    stream = stream or sys.stdout
    return Console(file=stream, force_terminal=stream.isatty(), highlight=False, markup=False, emoji=False)


def harmless(words: str) -> str:
    return words.translate(HARMFUL)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> "Table":
    """The last column gives way first, and is folded and never cut: what it says may be the reason."""
    from rich.table import Table

    numbers = set(right)
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for place, heading in enumerate(headings):
        folded = place == len(headings) - 1
        made.add_column(heading, justify="right" if place in numbers else "left", no_wrap=not folded, overflow="fold")
    for row in rows:
        made.add_row(harmless(row[0]), *(styled(cell) for cell in row[1:]))
    return made


def facts_grid(facts: Iterable[tuple[str, str]]) -> "Table":
    """Names and what is known of them; long ones go on under themselves."""
    from rich.text import Text

    return grid((Text(name, style="dim"), styled(value)) for name, value in facts)


def grid(lines: Iterable[Sequence["Text"]]) -> "Table":
    """Columns without headings, of which the last is folded."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2, 0, 0))
    for cells in lines:
        if not made.columns:
            for _ in cells[1:]:
                made.add_column(no_wrap=True)
            made.add_column(overflow="fold")
        made.add_row(*cells)
    return made


def styled(cell: str) -> "Text":
    from rich.text import Text

    return Text(harmless(cell), style=STYLES.get(cell.strip(), ""))


def distance(moment: datetime, now: datetime | None = None) -> str:
    """How far away, as people say it: in 19 min, 3 s ago."""
    seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    words = lasting(abs(seconds))
    return f"in {words}" if seconds > 0 else f"{words} ago"


def lasting(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


SHOWN_OF_ID = 8
"""Characters of a random id; JSON has it whole, and `throttle lift` takes as many as are clear."""


def stamp(moment: datetime) -> str:
    """ISO 8601 in UTC, to the millisecond, as the dumps have promised it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def maybe_stamp(moment: datetime | None) -> str | None:
    return None if moment is None else stamp(moment)


def print_json(value: object) -> None:
    """One line, as programs read it; indented on a terminal, where a person does."""
    if sys.stdout.isatty():
        click.echo(json.dumps(value, ensure_ascii=False, indent=2))
    else:
        click.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def print_lines(values: Iterable[Mapping[str, object]]) -> None:
    """One JSON object a line, as they come: nothing is held in memory."""
    write = sys.stdout.write
    for value in values:
        write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def print_sentence(words: str) -> None:
    """A terminal breaks it between words."""
    if watched():
        console().print(styled(words))
    else:
        click.echo(harmless(words))


def print_facts(facts: Mapping[str, object]) -> None:
    """One fact a line, aligned; those that are not known are left out."""
    known = {name: cell(value) for name, value in facts.items() if value is not None}
    if watched():
        console().print(facts_grid(known.items()))
        return
    width = max((len(name) for name in known), default=0)
    for name, value in known.items():
        click.echo(f"{name:<{width}}  {value}")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their widest cell; numbers to the right. A terminal is told how far away a time is."""
    listed = [tuple(row) for row in rows]
    right = [i for i in range(len(headings)) if listed and all(_number(cell(row[i])) for row in listed)]
    if watched():
        console().print(table(headings, [[_near(value) for value in row] for row in listed], right=right))
        return
    lines = [tuple(headings), *(tuple(cell(value) for value in row) for row in listed)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    for line in lines:
        cells = [
            word.rjust(width) if i in right else word.ljust(width)
            for i, (word, width) in enumerate(zip(line, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def cell(value: object) -> str:
    """Nothing a person wrote can steer who reads it: control characters are replaced."""
    match value:
        case None:
            return "-"
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case datetime():
            return stamp(value)
        case _:
            return harmless(str(value))


def _near(value: object) -> str:
    return distance(value) if isinstance(value, datetime) else cell(value)


def _number(word: str) -> bool:
    return word.replace(",", "").isdecimal()


# The envelope of every `--json` that checks: stable, because other people's checks rely on it.

SCHEMA = "notifier.check/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    ok: bool
    value: float | int | str | None = None
    limit: float | int | str | None = None
    unit: str = ""
    n: int = 1
    """How many observations stand behind the value."""
    detail: str = ""


def envelope(profile: str, seed: int | None, checks: Sequence[Check]) -> dict[str, object]:
    """To be printed last and on one line; ok when every check is, and there is one."""
    return {
        "schema": SCHEMA,
        "profile": profile,
        "seed": seed,
        "machine": machine(),
        "checks": [asdict(check) for check in checks],
        "ok": bool(checks) and all(check.ok for check in checks),
    }


def machine() -> dict[str, object]:
    return {"system": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}


# Progress of what takes a while.


class Advance(Protocol):
    def __call__(self, done: int, more: int | None = None) -> None:
        """So many steps more, with so many of what is counted; those steps, unless it is said."""
        ...


@contextmanager
def progress(doing: str, steps: int | None, *, quiet: bool, counted: str = "") -> Iterator[Advance]:
    """A bar where somebody watches, silence elsewhere. `counted` names what a rate is shown of."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    seen = not quiet and watched(sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"), TimeElapsedColumn())
    left = (TextColumn("left"), TimeRemainingColumn()) if counted and steps is not None else ()
    with Progress(*columns, *left, console=console(sys.stderr), transient=True, disable=not seen) as shown:
        task, total = shown.add_task(doing, total=steps, rate=""), 0

        def advance(done: int, more: int | None = None) -> None:
            nonlocal total
            total += done if more is None else more
            spent = shown.tasks[task].elapsed or 0
            rate = f"{total:,} {counted}, {total / spent:,.0f}/s" if counted and spent else ""
            shown.update(task, advance=done, rate=rate)

        yield advance
