"""What a terminal shows: tables and sentences that fit its width, with colours unless NO_COLOR says otherwise."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

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
