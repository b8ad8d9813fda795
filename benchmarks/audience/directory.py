"""What the directory takes and gives: bytes of a person, and look-ups a second, both ways, of names and of ranges."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.fanout.suite import Parts
from benchmarks.rounds import Figure, Spread, seconds, told
from notifier.config import Settings
from notifier.devkit.check.finding import at_least
from notifier.devkit.check.instance import engines
from notifier.devkit.engines.cassandra import Sync
from notifier.domain.audience.id_ranges import IdRange
from notifier.domain.ids import UserId
from notifier.ports.directory import Directory
from notifier.profiles import choose

LOOKUPS_PER_S = 200_000.0
PEOPLE, PEOPLE_QUICK = 10_000_000, 200_000
ON_CASSANDRA, ON_CASSANDRA_QUICK = 200_000, 20_000
"""Each name of its own is decided there by a round of Paxos."""
AT_ONCE = 65_536
"""That are given numbers in one call."""
BATCH = 4_096
"""That are looked up in one: as many as a poll of events may name."""
BATCHES, BATCHES_QUICK = 50, 10
ROUNDS = 3
OFTEN = 65_536
"""Whom a process is asked for again and again: where it remembers numbers it remembers theirs."""
UNIVERSE = 200_000_000
ALONE = 512
MB = 1024 * 1024

T = TypeVar("T")

WAYS = ("names", "accounts", "members", "ranges", "one")
AGAIN = ("names", "members", "ranges")


def run(folder: Path, *, quick: bool, tell: Callable[[str], None], profile: str = "embedded") -> list[Figure]:
    embedded = profile == "embedded"
    full, short = (PEOPLE, PEOPLE_QUICK) if embedded else (ON_CASSANDRA, ON_CASSANDRA_QUICK)
    many = short if quick else full
    read = partial(Settings.read, data=folder, profile=profile)  # once the engines have their addresses
    with engines(folder, profile, Sync.PERIODIC):
        with closing(choose(read())) as chosen:
            chosen.migrate()
            tell(f"{many:,} people get their numbers, in random order")
            taken = seconds(partial(_fill, chosen.ports().directory, many))
        with closing(choose(read())) as chosen:  # that remembers nobody
            tell("looking up")
            directory = chosen.ports().directory
            found = _first(directory, many, BATCHES if embedded and not quick else BATCHES_QUICK)
            again = {} if embedded else _again(directory, min(OFTEN, many), BATCHES_QUICK)
    first = [_figure(way, rates, judged=embedded and way in AGAIN) for way, rates in found.items()]
    known = [_figure(f"{way},again", rates, judged=True) for way, rates in again.items()]
    figures = [*first, *known, _given(many, taken)]
    return [*figures, _bytes(_size(folder), many)] if embedded else figures  # the file is whole once it is closed


def _fill(directory: Directory, many: int) -> None:
    for some in np.array_split(np.random.default_rng(1).permutation(many), -(-many // AT_ONCE)):
        directory.number([_name(n) for n in some.tolist()])
    first = directory.lease(UNIVERSE)
    directory.enrol_range(IdRange(prefix="", first=1, count=UNIVERSE, member=first))


def _first(directory: Directory, many: int, batches: int) -> dict[str, list[float]]:
    """Of each way the look-ups a second of each round, of people whom this process wasn't asked for before."""
    dice = np.random.default_rng(2)
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for some in np.array_split(dice.permutation(many)[: ROUNDS * batches * BATCH], ROUNDS):
        named = [[_name(n) for n in lot.tolist()] for lot in np.array_split(some[ALONE:], batches)]
        ids = [[_id(n) for n in lot] for lot in _drawn(dice, UNIVERSE, batches)]
        found["accounts"].append(_rate(directory.accounts, named))
        found["names"].append(_rate(directory.number, named))
        members = [[*directory.number(lot).values()] for lot in named]
        found["members"].append(_rate(directory.users, members))
        found["ranges"].append(_rate(directory.number, ids))
        found["one"].append(_rate(directory.number, [[_name(n)] for n in some[:ALONE].tolist()]))
    return found


def _again(directory: Directory, often: int, batches: int) -> dict[str, list[float]]:
    """The same, of people whom it was asked for: anybody among them."""
    dice = np.random.default_rng(3)
    members = [*directory.number([_name(n) for n in range(often)]).values()]
    directory.users(members)
    directory.number([_id(n) for n in range(often)])
    found: dict[str, list[float]] = {way: [] for way in AGAIN}
    for _ in range(ROUNDS):
        lots = _drawn(dice, often, batches)
        found["names"].append(_rate(directory.number, [[_name(n) for n in lot] for lot in lots]))
        found["members"].append(_rate(directory.users, [[members[n] for n in lot] for lot in lots]))
        found["ranges"].append(_rate(directory.number, [[_id(n) for n in lot] for lot in lots]))
    return found


def _drawn(dice: np.random.Generator, many: int, batches: int) -> list[list[int]]:
    """Nobody twice in a batch."""
    return [np.unique(dice.integers(many, size=BATCH)).tolist() for _ in range(batches)]


def _rate(look: Callable[[list[T]], Mapping[T, object]], lots: Sequence[list[T]]) -> float:
    """Raises AssertionError where somebody isn't found."""

    def every() -> None:
        for lot in lots:
            if len(look(lot)) != len(lot):
                raise AssertionError(f"{len(lot)} were looked up, and not all were found.")

    return sum(map(len, lots)) / seconds(every)


def _name(number: int) -> UserId:
    return UserId(f"person-{number:08x}")


def _id(number: int) -> UserId:
    """In the range."""
    return UserId(str(number + 1))


def _figure(way: str, rates: list[float], *, judged: bool) -> Figure:
    spread, name = Spread.of(rates, "1/s"), f"directory_lookups_per_s{{{way}}}"
    of_whom = f"anybody of {OFTEN:,} whom it was asked for before" if way.endswith("again") else "each asked for once"
    detail = f"in batches of {BATCH:,}, {of_whom}" if way != "one" else "one in a question"
    if not judged:
        return told(name, spread, spread.n, detail)
    return Figure(
        finding=at_least(name, spread.median, LOOKUPS_PER_S, unit="1/s", n=spread.n, detail=detail), ours=spread
    )


def _given(many: int, taken: float) -> Figure:
    return told("directory_numbers_per_s", Spread.of([many / taken], "1/s"), many, "given to names that are new")


def _bytes(size: int, many: int) -> Figure:
    each = size / many
    detail = (
        f"{many:,} names of 15 letters took {size / MB:,.0f} MB; {UNIVERSE:,} would take "
        f"{each * UNIVERSE / 1e9:,.1f} GB. A range of ids that are numbers takes one row"
    )
    return told("directory_bytes_per_user", Spread.of([each], "B"), many, detail)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("core.db*"))


FIRST = tuple(f"directory_lookups_per_s{{{way}}}" for way in WAYS)
KNOWN = tuple(f"directory_lookups_per_s{{{way},again}}" for way in AGAIN)
PARTS: Parts = {"directory": (run, (*FIRST, "directory_numbers_per_s", "directory_bytes_per_user"))}
OF_CLUSTER: Parts = {
    "directory": (partial(run, profile="cluster"), (*FIRST, *KNOWN, "directory_numbers_per_s")),
}
