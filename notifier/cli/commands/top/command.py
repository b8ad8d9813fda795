"""Command `notifier top`: shows the current state, live or once in a pipe."""

import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Signal
from typing import TYPE_CHECKING

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.commands.top.snapshot import (
    MAX_COUNTED_LETTERS,
    TierBar,
    TopView,
    format_clock,
    pool_delay,
    tier_names,
)
from notifier.cli.options import FiniteRange, data_option, json_option, settings_for
from notifier.cli.output import (
    SHOWN_ID_LENGTH,
    console,
    duration_text,
    fields_grid,
    is_terminal,
    print_fields,
    print_sentence,
    print_table,
    relative_time,
    styled,
    table,
    without_control_characters,
)
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.delivery.throttle_and_backpressure import Throttle
from notifier.domain.errors import Unavailable

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text


# Views: a screen for a terminal of any width, and plain text for a pipe.

MAX_BAR_WIDTH, MIN_BAR_WIDTH = 30, 4
POOL_HEADINGS, CIRCUIT_HEADINGS = ("pool", "delay", "runnable", "deferred"), ("circuit open", "until", "reason")
LANE_HEADINGS = ("stopped lane", "since", "record", "cause")
BURST_HEADINGS = ("burst", "mentions", "followers")


def print_plain(view: TopView) -> None:
    print_fields(dict(_figures(view)))
    _section("pools", POOL_HEADINGS, _pools(view))
    _section("open circuits", CIRCUIT_HEADINGS, _open_circuits(view))
    _section("stopped lanes", LANE_HEADINGS, _stopped_lanes(view))
    _section("unfinished bursts", (*BURST_HEADINGS, *tier_names()), _unfinished(view))
    _section("throttles", ("id", "tier", "rate", "ends", "operator", "reason"), _throttles(view))
    _section("processes", ("role", "pid", "up"), _processes(view))


def _section(name: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    click.echo()
    if rows:
        print_table(headings, rows)
    else:
        print_sentence(EMPTY_TEXTS[name])


EMPTY_TEXTS = {
    "pools": "The delays of the pools are unknown: the dispatcher or Redis is unavailable.",
    "open circuits": "No open circuit breaker is known.",
    "stopped lanes": "No lane is stopped by its dead-letter limit.",
    "unfinished bursts": "No burst is unfinished.",
    "throttles": "No tier is throttled.",
    "processes": "No service runs on this folder.",
}


def render_screen(view: TopView, width: int, status: str = "") -> "Group":
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_headline(view, status), fields_grid(_figures(view)), Text()]
    parts += [_table_or_text("pools", POOL_HEADINGS, _pools(view), {1, 2, 3}), Text()]
    if circuits := _open_circuits(view):
        parts += [_table_or_text("open circuits", CIRCUIT_HEADINGS, circuits, set()), Text()]
    if stopped := _stopped_lanes(view):
        parts += [_table_or_text("stopped lanes", LANE_HEADINGS, stopped, set()), Text()]
    parts += [
        _burst_table(view, width) if view.unfinished else Text(EMPTY_TEXTS["unfinished bursts"], style="dim"),
        Text(),
    ]
    parts += [
        _table_or_text("throttles", ("id", "tier", "rate", "ends", "operator", "reason"), _throttles(view), {2}),
        Text(),
    ]
    parts.append(_table_or_text("processes", ("role", "pid", "up"), _processes(view), {1, 2}))
    return Group(*parts)


def _headline(view: TopView, status: str) -> "Text":
    from rich.text import Text

    address = view.url or "no service runs here"
    return Text.assemble(
        ("notifier top", "bold"), f"  {format_clock(view.snapshot.at)}  {address}  ", (status or "q quits", "dim"), "\n"
    )


def _table_or_text(
    name: str, headings: Sequence[str], rows: Sequence[Sequence[object]], right_columns: set[int]
) -> "RenderableType":
    from rich.text import Text

    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    return table(headings, cells, right_columns=right_columns) if rows else Text(EMPTY_TEXTS[name], style="dim")


def _figures(view: TopView) -> Iterator[tuple[str, str]]:
    snapshot = view.snapshot
    more = " or more" if view.dead_letter_count == MAX_COUNTED_LETTERS else ""
    yield "mentions", f"{snapshot.mentions_per_second:,.1f}/s"
    yield (
        "bursts",
        f"{snapshot.unfinished_burst_count:,} unfinished"
        + (f", {snapshot.deferred_burst_count:,} deferred" if snapshot.deferred_burst_count else ""),
    )
    yield "rows", f"{snapshot.rate.rows:,.0f}/s for {snapshot.rate.deliveries:,.0f} users/s"
    yield (
        "backpressure",
        "unknown" if snapshot.cache.backpressure is None else f"{snapshot.cache.backpressure:.0%} of p2 held back",
    )
    yield "redis", view.redis
    yield "dead letters", f"{view.dead_letter_count:,}{more}"


def _pools(view: TopView) -> Sequence[Sequence[object]]:
    return [
        (str(pool), _format_delay(pool_delay(view.snapshot, pool)), backlog.slices, backlog.deferred)
        for pool in Pool
        if (backlog := view.snapshot.cache.backlogs.get(pool)) is not None
    ]


def _format_delay(delay: float | None) -> str:
    return "parked" if delay is None else f"{delay:.1f} s"


def _open_circuits(view: TopView) -> Sequence[Sequence[object]]:
    circuits = sorted(view.snapshot.cache.open_circuits.items())
    return [
        (without_control_characters(provider), format_clock(circuit.until), without_control_characters(circuit.reason))
        for provider, circuit in circuits
    ]


def _stopped_lanes(view: TopView) -> Sequence[Sequence[object]]:
    return [
        (lane, format_clock(stop.at), without_control_characters(stop.record), without_control_characters(stop.cause))
        for lane, stop in view.snapshot.stopped_lanes.items()
    ]


def _unfinished(view: TopView) -> Sequence[Sequence[object]]:
    return [
        (burst.burst, burst.mention_count, burst.follower_count, *(_percent(burst.bars, tier) for tier in tier_names()))
        for burst in view.unfinished
    ]


def _percent(bars: Sequence[TierBar], tier: str) -> str:
    tier_bar = next((bar for bar in bars if bar.tier == tier), None)
    return "-" if tier_bar is None else f"{tier_bar.share:.0%}" + (" parked" if tier_bar.parked else "")


def _burst_table(view: TopView, width: int) -> "Table":
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    name_width = max(len(burst.burst) for burst in view.unfinished)
    bar_width = (width - min(name_width, 24) - 10 - 13 - 3 * 8) // 3
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, heading in enumerate((*BURST_HEADINGS, *tier_names())):
        result.add_column(heading, justify="right" if index in {1, 2} else "left", no_wrap=True, overflow="ellipsis")
    for burst in view.unfinished:
        cells: list[RenderableType] = [
            without_control_characters(burst.burst),
            f"{burst.mention_count:,}",
            f"{burst.follower_count:,}",
        ]
        for tier in tier_names():
            tier_bar = next((bar for bar in burst.bars if bar.tier == tier), None)
            if tier_bar is None:
                cells.append(styled("-"))
            elif bar_width < MIN_BAR_WIDTH:
                cells.append(_percent(burst.bars, tier))
            else:
                cells.append(
                    _bar_with_number(
                        tier_bar, ProgressBar(total=1.0, completed=tier_bar.share, width=min(bar_width, MAX_BAR_WIDTH))
                    )
                )
        result.add_row(*cells)
    return result


def _bar_with_number(progress: TierBar, bar: "RenderableType") -> "Table":
    """Return the bar with a number beside it, for screen readers."""
    from rich.table import Table
    from rich.text import Text

    result = Table.grid(padding=(0, 1, 0, 0))
    result.add_row(
        bar, Text("parked" if progress.parked else f"{progress.share:4.0%}", style="yellow" if progress.parked else "")
    )
    return result


def _throttles(view: TopView) -> Sequence[Sequence[object]]:
    return [_throttle(throttle, view) for throttle in view.snapshot.throttles]


def _throttle(throttle: Throttle, view: TopView) -> Sequence[object]:
    now = view.snapshot.at
    ends = relative_time(throttle.ends_at, now) if throttle.is_active(now) else "ramping"
    rate = "pause" if throttle.rate is None else f"{throttle.rate:,.0f}/s"
    return (
        throttle.id[:SHOWN_ID_LENGTH],
        str(throttle.tier),
        rate,
        ends,
        without_control_characters(throttle.operator),
        without_control_characters(throttle.reason),
    )


def _processes(view: TopView) -> Sequence[Sequence[object]]:
    return [
        (process.role, str(process.pid), _uptime(process.alive, _age(process.since, view)))
        for process in view.processes
    ]


def _age(since: object, view: TopView) -> str:
    from datetime import datetime

    return duration_text((view.snapshot.at - since).total_seconds()) if isinstance(since, datetime) else "-"


def _uptime(is_alive: bool, age: str) -> str:
    return age if is_alive else "gone"


QUIT_KEYS = {"q", "Q", "\x03", "\x1b", ""}
"""Input that ends the live view. The empty string is the end of input: the terminal was closed."""


@click.command(epilog=example("notifier top", "notifier top --once", "notifier top --json | jq .backlog"))
@click.option("--once", is_flag=True, help="Print one snapshot and exit, as in a pipe.")
@click.option("--every", type=FiniteRange(0.05, 60), default=1.0, show_default=True, help="Seconds between snapshots.")
@data_option
@json_option
def top(*, once: bool, every: float, data: Path | None, as_json: bool) -> None:
    """Show current rates, bursts, delays of the pools, throttles and processes.

    On a terminal the view refreshes until q or Ctrl-C is pressed. The command reads the stores itself, so it also works
    while no service runs.
    """
    from notifier.cli.commands.top.snapshot import read_view, view_json
    from notifier.cli.opened_stores import open_stores, overview_of
    from notifier.cli.output import print_json

    settings = settings_for(data)
    with open_stores(settings) as stores:
        overview = overview_of(stores.ports, settings)

        def read() -> "TopView":
            return read_view(overview, stores.ports, settings)

        read()  # the rate of mentions is computed from two snapshots
        if is_terminal() and sys.stdin.isatty() and not once and not as_json:
            run_live(read, every)
            return
        Signal().wait(every)
        view = read()
    if as_json:
        print_json(view_json(view))
    else:
        print_plain(view)


def run_live(read_view: "Callable[[], TopView]", every: float) -> None:
    """Refresh the screen until a quit key is pressed. Show an outage of a store above the last view."""
    from rich.live import Live

    screen, view, error_text = console(), None, ""
    with watch_quit_keys() as pressed, Live(console=screen, screen=True, auto_refresh=False) as display:
        while True:
            try:
                view, error_text = read_view(), ""
            except Unavailable as error:
                error_text = str(error)
            if view is not None:
                display.update(render_screen(view, screen.width, error_text), refresh=True)
            if pressed(every):
                return


@contextmanager
def watch_quit_keys() -> "Iterator[Callable[[float], bool]]":
    """Yield a function that waits for a key, and returns whether it is one of QUIT_KEYS.

    The argument of the function is the longest wait in seconds. Ctrl-C ends the block.
    """
    import termios
    import tty

    terminal_mode = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)

    def pressed(timeout: float) -> bool:
        ready, _, _ = select.select([sys.stdin], [], [], timeout)
        return bool(ready) and sys.stdin.read(1) in QUIT_KEYS

    try:
        yield pressed
    except KeyboardInterrupt:
        return
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, terminal_mode)
