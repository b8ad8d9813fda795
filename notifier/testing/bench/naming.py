"""What the directory takes and gives: bytes of a person, and look-ups a second, both ways, of names and of ranges."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from notifier.config import Settings
from notifier.domain.numbers import IdRange
from notifier.domain.subject import UserId
from notifier.ports.directory import Directory
from notifier.profiles import choose
from notifier.testing.bench.fanout import Parts
from notifier.testing.bench.rounds import Figure, Spread, seconds, told
from notifier.testing.engines import engines
from notifier.testing.finding import at_least
from services.cassandra.node import Sync

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
UNIVERSE = 200_000_000
ALONE = 512
MB = 1024 * 1024

T = TypeVar("T")

WAYS = ("names", "accounts", "members", "ranges", "one")


def run(folder: Path, *, quick: bool, tell: Callable[[str], None], profile: str = "embedded") -> list[Figure]:
    embedded = profile == "embedded"
    full, short = (PEOPLE, PEOPLE_QUICK) if embedded else (ON_CASSANDRA, ON_CASSANDRA_QUICK)
    many = short if quick else full
    read = partial(Settings.read, data=folder, profile=profile)  # once the engines have their addresses
    with engines(folder, profile, Sync.PERIODIC), closing(choose(read())) as chosen:
        chosen.migrate()
        directory = chosen.ports().directory
        tell(f"{many:,} people get their numbers, in random order")
        taken = seconds(partial(_fill, directory, many))
        tell("looking up")
        found = _lookups(directory, many, BATCHES if embedded and not quick else BATCHES_QUICK)
    figures = [
        *_figures(found, judged=("names", "members", "ranges") if embedded else ("ranges",)),
        _given(many, taken),
    ]
    return [*figures, _bytes(_size(folder), many)] if embedded else figures  # the file is whole once it is closed


def _fill(directory: Directory, many: int) -> None:
    for some in np.array_split(np.random.default_rng(1).permutation(many), -(-many // AT_ONCE)):
        directory.number([_name(n) for n in some.tolist()])
    first = directory.lease(UNIVERSE)
    directory.enrol_range(IdRange(prefix="", first=1, count=UNIVERSE, member=first))


def _lookups(directory: Directory, many: int, batches: int) -> dict[str, list[float]]:
    """Of each way the look-ups a second of each round; everybody is as likely as everybody else."""
    dice = np.random.default_rng(2)
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        named = [[_name(n) for n in some] for some in _drawn(dice, many, batches)]
        members = [[*directory.number(some).values()] for some in named]
        ids = [[UserId(str(n + 1)) for n in some] for some in _drawn(dice, UNIVERSE, batches)]
        found["names"].append(_rate(directory.number, named))
        found["accounts"].append(_rate(directory.accounts, named))
        found["members"].append(_rate(directory.users, members))
        found["ranges"].append(_rate(directory.number, ids))
        found["one"].append(_rate(directory.number, [[name] for name in named[0][:ALONE]]))
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


def _figures(found: dict[str, list[float]], judged: Sequence[str]) -> list[Figure]:
    figures = []
    for way, rates in found.items():
        spread, name = Spread.of(rates, "1/s"), f"directory_lookups_per_s{{{way}}}"
        detail = f"in batches of {BATCH:,}, each of them anybody" if way != "one" else "one in a question"
        if way in judged:
            finding = at_least(name, spread.median, LOOKUPS_PER_S, unit="1/s", n=spread.n, detail=detail)
            figures.append(Figure(finding=finding, ours=spread))
        else:
            figures.append(told(name, spread, spread.n, detail))
    return figures


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


FIGURES = (
    *(f"directory_lookups_per_s{{{way}}}" for way in WAYS),
    "directory_numbers_per_s",
)
PARTS: Parts = {"directory": (run, (*FIGURES, "directory_bytes_per_user"))}
OF_CLUSTER: Parts = {"directory": (partial(run, profile="cluster"), FIGURES)}
