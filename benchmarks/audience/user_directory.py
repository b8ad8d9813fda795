"""Measures the directory: bytes per user, and look-ups per second of names and ranges."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.costs_and_figures import Figure, Spread, seconds, unjudged
from benchmarks.fanout.suite import Parts
from notifier.config import Settings
from notifier.devkit.check.finding_and_quantiles import at_least
from notifier.devkit.check.notifier_and_engine_processes import engines
from notifier.devkit.engines.cassandra import Sync
from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.ids import UserId
from notifier.ports.user_directory_and_account_flags import Directory
from notifier.profiles import choose

LOOKUPS_PER_S = 200_000.0
PEOPLE, PEOPLE_QUICK = 10_000_000, 200_000
ON_CASSANDRA, ON_CASSANDRA_QUICK = 200_000, 20_000
"""Users on Cassandra: fewer, because each name takes a round of Paxos."""
USERS_PER_ENROLMENT = 65_536
"""Users who get member numbers in one call."""
USERS_PER_LOOKUP = 4_096
"""Users per look-up: as many as the events of one poll may name."""
BATCHES, BATCHES_QUICK = 50, 10
ROUNDS = 3
CACHED_USERS = 65_536
"""Users that a process reads repeatedly. A directory with a cache of numbers holds all of them."""
UNIVERSE = 200_000_000
SINGLE_LOOKUPS = 512
MB = 1024 * 1024

T = TypeVar("T")

LOOKUP_WAYS = ("names", "accounts", "members", "ranges", "one")
CACHED_LOOKUP_WAYS = ("names", "members", "ranges")


def run(folder: Path, *, quick: bool, tell: Callable[[str], None], profile: str = "embedded") -> list[Figure]:
    embedded = profile == "embedded"
    full, short = (PEOPLE, PEOPLE_QUICK) if embedded else (ON_CASSANDRA, ON_CASSANDRA_QUICK)
    many = short if quick else full
    read = partial(Settings.read, data=folder, profile=profile)  # after the engines have their addresses
    with engines(folder, profile, Sync.PERIODIC):
        with closing(choose(read())) as chosen:
            chosen.migrate()
            tell(f"{many:,} users get numbers, in random order")
            taken = seconds(partial(_fill, chosen.ports().directory, many))
        with closing(choose(read())) as chosen:  # a new process's directory: its cache is empty
            tell("looking up")
            directory = chosen.ports().directory
            first_rates = _first(directory, many, BATCHES if embedded and not quick else BATCHES_QUICK)
            again = {} if embedded else _again(directory, min(CACHED_USERS, many), BATCHES_QUICK)
    first = [_figure(way, rates, judged=embedded and way in CACHED_LOOKUP_WAYS) for way, rates in first_rates.items()]
    known = [_figure(f"{way},again", rates, judged=True) for way, rates in again.items()]
    figures = [*first, *known, _assigned_figure(many, taken)]
    return [*figures, _bytes(_size(folder), many)] if embedded else figures  # closing the directory completes the file


def _fill(directory: Directory, count: int) -> None:
    for numbers in np.array_split(np.random.default_rng(1).permutation(count), -(-count // USERS_PER_ENROLMENT)):
        directory.assign_numbers([_name(n) for n in numbers.tolist()])
    first = directory.lease(UNIVERSE)
    directory.enrol_range(IdRange(prefix="", first=1, count=UNIVERSE, first_member=first))


def _first(directory: Directory, count: int, batches: int) -> dict[str, list[float]]:
    """Return the look-ups per second of each round, by way, for users that this process has not read before."""
    random = np.random.default_rng(2)
    rates: dict[str, list[float]] = {way: [] for way in LOOKUP_WAYS}
    for numbers in np.array_split(random.permutation(count)[: ROUNDS * batches * USERS_PER_LOOKUP], ROUNDS):
        named = [[_name(n) for n in batch.tolist()] for batch in np.array_split(numbers[SINGLE_LOOKUPS:], batches)]
        ids = [[_id(n) for n in batch] for batch in _random_batches(random, UNIVERSE, batches)]
        rates["accounts"].append(_rate(directory.accounts, named))
        rates["names"].append(_rate(directory.assign_numbers, named))
        members = [[*directory.assign_numbers(batch).values()] for batch in named]
        rates["members"].append(_rate(directory.users, members))
        rates["ranges"].append(_rate(directory.assign_numbers, ids))
        rates["one"].append(_rate(directory.assign_numbers, [[_name(n)] for n in numbers[:SINGLE_LOOKUPS].tolist()]))
    return rates


def _again(directory: Directory, often: int, batches: int) -> dict[str, list[float]]:
    """Return the look-ups per second for random users that the process has read before."""
    random = np.random.default_rng(3)
    members = [*directory.assign_numbers([_name(n) for n in range(often)]).values()]
    directory.users(members)
    directory.assign_numbers([_id(n) for n in range(often)])
    rates: dict[str, list[float]] = {way: [] for way in CACHED_LOOKUP_WAYS}
    for _ in range(ROUNDS):
        batches_ = _random_batches(random, often, batches)
        rates["names"].append(_rate(directory.assign_numbers, [[_name(n) for n in batch] for batch in batches_]))
        rates["members"].append(_rate(directory.users, [[members[n] for n in batch] for batch in batches_]))
        rates["ranges"].append(_rate(directory.assign_numbers, [[_id(n) for n in batch] for batch in batches_]))
    return rates


def _random_batches(random: np.random.Generator, count: int, batches: int) -> list[list[int]]:
    """Draw users for each batch, without duplicates in a batch."""
    return [np.unique(random.integers(count, size=USERS_PER_LOOKUP)).tolist() for _ in range(batches)]


def _rate(look_up: Callable[[list[T]], Mapping[T, object]], batches: Sequence[list[T]]) -> float:
    """Raises AssertionError if a user isn't found."""

    def every() -> None:
        for batch in batches:
            if len(look_up(batch)) != len(batch):
                raise AssertionError(f"some of {len(batch)} users were not found")

    return sum(map(len, batches)) / seconds(every)


def _name(number: int) -> UserId:
    return UserId(f"person-{number:08x}")


def _id(number: int) -> UserId:
    """Return an id of the range."""
    return UserId(str(number + 1))


def _figure(way: str, rates: list[float], *, judged: bool) -> Figure:
    spread, name = Spread.of(rates, "1/s"), f"directory_lookups_per_s{{{way}}}"
    of_whom = f"random users among {CACHED_USERS:,} read before" if way.endswith("again") else "each user read once"
    detail = f"batches of {USERS_PER_LOOKUP:,}, {of_whom}" if way != "one" else "one name per query"
    if not judged:
        return unjudged(name, spread, spread.n, detail)
    return Figure(
        finding=at_least(name, spread.median, LOOKUPS_PER_S, unit="1/s", n=spread.n, detail=detail), ours=spread
    )


def _assigned_figure(count: int, taken: float) -> Figure:
    return unjudged("directory_numbers_per_s", Spread.of([count / taken], "1/s"), count, "assigned to new names")


def _bytes(size: int, count: int) -> Figure:
    bytes_per_user = size / count
    detail = (
        f"{count:,} names of 15 letters took {size / MB:,.0f} MB; {UNIVERSE:,} would take "
        f"{bytes_per_user * UNIVERSE / 1e9:,.1f} GB. A range of numeric ids takes one row"
    )
    return unjudged("directory_bytes_per_user", Spread.of([bytes_per_user], "B"), count, detail)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("core.db*"))


FIRST_FIGURES = tuple(f"directory_lookups_per_s{{{way}}}" for way in LOOKUP_WAYS)
KNOWN_FIGURES = tuple(f"directory_lookups_per_s{{{way},again}}" for way in CACHED_LOOKUP_WAYS)
PARTS: Parts = {"directory": (run, (*FIRST_FIGURES, "directory_numbers_per_s", "directory_bytes_per_user"))}
OF_CLUSTER: Parts = {
    "directory": (partial(run, profile="cluster"), (*FIRST_FIGURES, *KNOWN_FIGURES, "directory_numbers_per_s")),
}
