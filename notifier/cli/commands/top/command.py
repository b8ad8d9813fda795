"""Command `notifier top`: shows the current state, live or once in a pipe."""

import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Signal
from typing import TYPE_CHECKING

import click

from notifier.cli.commands.top.snapshot import DEAD_COUNTED, Bar, Glance, behind, clock, tiers
from notifier.cli.group import example
from notifier.cli.options import Between, data_option, json_option, settings_for
from notifier.cli.output import (
    SHOWN_OF_ID,
    console,
    distance,
    facts_grid,
    harmless,
    lasting,
    print_facts,
    print_sentence,
    print_table,
    styled,
    table,
    watched,
)
from notifier.domain.delivery.slice import Pool
from notifier.domain.delivery.throttle import Throttle
from notifier.domain.errors import Unavailable

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text


# Views: a screen for a terminal of any width, and plain text for a pipe.

WIDEST_BAR, NARROWEST_BAR = 30, 4
POOL, LEFT_ALONE = ("pool", "behind", "waiting", "later"), ("no alerts by", "until", "reason")
STOPPED = ("stopped lane", "since", "record", "cause")
TITLES = ("burst", "mentions", "followers")


def print_plain(found: Glance) -> None:
    print_facts(dict(_numbers(found)))
    _section("pools", POOL, _pools(found))
    _section("left alone", LEFT_ALONE, _left_alone(found))
    _section("stopped lanes", STOPPED, _stopped_lanes(found))
    _section("running", (*TITLES, *tiers()), _running(found))
    _section("throttles", ("id", "tier", "rate", "ends", "who", "reason"), _throttles(found))
    _section("processes", ("role", "pid", "up"), _processes(found))


def _section(name: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    click.echo()
    if rows:
        print_table(headings, rows)
    else:
        print_sentence(NOTHING[name])


NOTHING = {
    "pools": "Nobody says how far the pools are behind: the dispatcher or Redis is away.",
    "left alone": "No provider of alerts is known to be left alone.",
    "stopped lanes": "No lane is stopped by its dead-letter limit.",
    "running": "No burst has work left.",
    "throttles": "No tier is throttled.",
    "processes": "Nothing runs on this folder.",
}


def picture(found: Glance, width: int, said: str = "") -> "Group":
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_headline(found, said), facts_grid(_numbers(found)), Text()]
    parts += [_shown("pools", POOL, _pools(found), {1, 2, 3}), Text()]
    if alone := _left_alone(found):
        parts += [_shown("left alone", LEFT_ALONE, alone, set()), Text()]
    if stopped := _stopped_lanes(found):
        parts += [_shown("stopped lanes", STOPPED, stopped, set()), Text()]
    parts += [_bars(found, width) if found.running else Text(NOTHING["running"], style="dim"), Text()]
    parts += [_shown("throttles", ("id", "tier", "rate", "ends", "who", "reason"), _throttles(found), {2}), Text()]
    parts.append(_shown("processes", ("role", "pid", "up"), _processes(found), {1, 2}))
    return Group(*parts)


def _headline(found: Glance, said: str) -> "Text":
    from rich.text import Text

    where = found.url or "nothing runs here"
    return Text.assemble(
        ("notifier top", "bold"), f"  {clock(found.snapshot.at)}  {where}  ", (said or "q quits", "dim"), "\n"
    )


def _shown(name: str, headings: Sequence[str], rows: Sequence[Sequence[object]], right: set[int]) -> "RenderableType":
    from rich.text import Text

    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    return table(headings, cells, right=right) if rows else Text(NOTHING[name], style="dim")


def _numbers(found: Glance) -> Iterator[tuple[str, str]]:
    s = found.snapshot
    more = " or more" if found.dead_letters == DEAD_COUNTED else ""
    yield "mentions", f"{s.mentions_per_second:,.1f}/s"
    yield (
        "bursts",
        f"{s.open_bursts:,} with work left" + (f", {s.sleeping_bursts:,} asleep" if s.sleeping_bursts else ""),
    )
    yield "rows", f"{s.pace.rows:,.0f}/s for {s.pace.deliveries:,.0f} people/s"
    yield "pressure", "unknown" if s.cache.pressure is None else f"{s.cache.pressure:.0%} of p2 held back"
    yield "redis", found.redis
    yield "dead letters", f"{found.dead_letters:,}{more}"


def _pools(found: Glance) -> Sequence[Sequence[object]]:
    return [
        (str(pool), _seconds(behind(found.snapshot, pool)), backlog.slices, backlog.later)
        for pool in Pool
        if (backlog := found.snapshot.cache.behind.get(pool)) is not None
    ]


def _seconds(late: float | None) -> str:
    return "held" if late is None else f"{late:.1f} s"


def _left_alone(found: Glance) -> Sequence[Sequence[object]]:
    open_circuits = sorted(found.snapshot.cache.left_alone.items())
    return [(harmless(line), clock(circuit.until), harmless(circuit.reason)) for line, circuit in open_circuits]


def _stopped_lanes(found: Glance) -> Sequence[Sequence[object]]:
    return [
        (lane, clock(stop.at), harmless(stop.record), harmless(stop.cause))
        for lane, stop in found.snapshot.stopped_lanes.items()
    ]


def _running(found: Glance) -> Sequence[Sequence[object]]:
    return [
        (burst.burst, burst.mentions, burst.followers, *(_percent(burst.bars, tier) for tier in tiers()))
        for burst in found.running
    ]


def _percent(bars: Sequence[Bar], tier: str) -> str:
    tier_bar = next((bar for bar in bars if bar.tier == tier), None)
    return "-" if tier_bar is None else f"{tier_bar.share:.0%}" + (" held" if tier_bar.held else "")


def _bars(found: Glance, width: int) -> "Table":
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    names = max(len(burst.burst) for burst in found.running)
    room = (width - min(names, 24) - 10 - 13 - 3 * 8) // 3
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, heading in enumerate((*TITLES, *tiers())):
        result.add_column(heading, justify="right" if index in {1, 2} else "left", no_wrap=True, overflow="ellipsis")
    for burst in found.running:
        cells: list[RenderableType] = [harmless(burst.burst), f"{burst.mentions:,}", f"{burst.followers:,}"]
        for tier in tiers():
            tier_bar = next((bar for bar in burst.bars if bar.tier == tier), None)
            if tier_bar is None:
                cells.append(styled("-"))
            elif room < NARROWEST_BAR:
                cells.append(_percent(burst.bars, tier))
            else:
                cells.append(
                    _bar(tier_bar, ProgressBar(total=1.0, completed=tier_bar.share, width=min(room, WIDEST_BAR)))
                )
        result.add_row(*cells)
    return result


def _bar(of: Bar, bar: "RenderableType") -> "Table":
    """Return the bar with its number beside it, because a screen reader can't read a bar alone."""
    from rich.table import Table
    from rich.text import Text

    result = Table.grid(padding=(0, 1, 0, 0))
    result.add_row(bar, Text("held" if of.held else f"{of.share:4.0%}", style="yellow" if of.held else ""))
    return result


def _throttles(found: Glance) -> Sequence[Sequence[object]]:
    return [_throttle(throttle, found) for throttle in found.snapshot.throttles]


def _throttle(each: Throttle, found: Glance) -> Sequence[object]:
    now = found.snapshot.at
    ends = distance(each.ends_at, now) if each.active(now) else "ramping"
    rate = "pause" if each.rate is None else f"{each.rate:,.0f}/s"
    return (each.id[:SHOWN_OF_ID], str(each.tier), rate, ends, harmless(each.who), harmless(each.reason))


def _processes(found: Glance) -> Sequence[Sequence[object]]:
    return [(p.role, str(p.pid), _up(p.alive, _age(p.since, found))) for p in found.processes]


def _age(since: object, found: Glance) -> str:
    from datetime import datetime

    return lasting((found.snapshot.at - since).total_seconds()) if isinstance(since, datetime) else "-"


def _up(lives: bool, age: str) -> str:
    return age if lives else "gone"


QUITS = {"q", "Q", "\x03", "\x1b", ""}
"""Keys that end the live view. The empty string is the end of input: the terminal is gone."""


@click.command(epilog=example("notifier top", "notifier top --once", "notifier top --json | jq .pools"))
@click.option("--once", is_flag=True, help="Look once and end, as in a pipe.")
@click.option("--every", type=Between(0.05, 60), default=1.0, show_default=True, help="Seconds between looks.")
@data_option
@json_option
def top(*, once: bool, every: float, data: Path | None, as_json: bool) -> None:
    """Show current rates, bursts, delays of the pools, throttles and processes.

    On a terminal it refreshes until q or Ctrl-C is pressed. It reads the data folder, so it also works while no service
    runs on it.
    """
    from notifier.cli.commands.top.snapshot import facts, glance
    from notifier.cli.context import opened, overview_of
    from notifier.cli.output import print_json

    settings = settings_for(data)
    with opened(settings) as folder:
        overview = overview_of(folder.ports, settings)

        def look() -> "Glance":
            return glance(overview, folder.ports, settings)

        look()  # the rate of mentions is the difference of two snapshots
        if watched() and sys.stdin.isatty() and not once and not as_json:
            live(look, every)
            return
        Signal().wait(every)
        snapshot = look()
    if as_json:
        print_json(facts(snapshot))
    else:
        print_plain(snapshot)


def live(look: "Callable[[], Glance]", every: float) -> None:
    """Refresh the screen until q or Ctrl-C is pressed.

    While a store doesn't answer, show the error above the last snapshot.
    """
    from rich.live import Live

    screen, snapshot, error_text = console(), None, ""
    with keys() as pressed, Live(console=screen, screen=True, auto_refresh=False) as display:
        while True:
            try:
                snapshot, error_text = look(), ""
            except Unavailable as error:
                error_text = str(error)
            if snapshot is not None:
                display.update(picture(snapshot, screen.width, error_text), refresh=True)
            if pressed(every):
                return


@contextmanager
def keys() -> "Iterator[Callable[[float], bool]]":
    """Yield a function that waits so many seconds and returns whether a key of QUITS was pressed.

    The terminal mode is restored afterwards.
    """
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)

    def pressed(within: float) -> bool:
        ready, _, _ = select.select([sys.stdin], [], [], within)
        return bool(ready) and sys.stdin.read(1) in QUITS

    try:
        yield pressed
    except KeyboardInterrupt:
        return
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
