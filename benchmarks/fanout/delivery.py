"""The delivery stage against the leanest writer of the same rows, in pre-filled inboxes; and what sealing costs."""

import shutil
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from benchmarks.fanout.densities import everybody_follows, shown
from benchmarks.fanout.prefill import prefill
from benchmarks.rounds import Cost, Figure, cost, median_at_most, ratio
from benchmarks.settled_rounds import Settling
from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.log.log import SqliteLog
from notifier.adapters.sqlite.stores.bursts import SqliteBursts
from notifier.adapters.sqlite.stores.dead_letters import SqliteDeadLetters, SqliteLaneTallies
from notifier.adapters.sqlite.stores.devices import SqliteDevices
from notifier.adapters.sqlite.stores.directory import SqliteDirectory
from notifier.adapters.sqlite.stores.follows import SqliteFollows
from notifier.adapters.sqlite.stores.inbox import SqliteInbox
from notifier.adapters.sqlite.stores.ledger import SqliteClaims, SqliteLedger
from notifier.adapters.sqlite.stores.member_sets import SqliteMemberSets, SqliteStays
from notifier.adapters.sqlite.stores.snapshots import SqliteSeals
from notifier.adapters.sqlite.stores.user_preferences import SqliteWants
from notifier.adapters.system_clock import SystemClock
from notifier.codec.storage import to_ms
from notifier.devkit.fixture.load import Load
from notifier.devkit.fixture.world import World
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.inbox_rows import SHARD_RANGES, InboxRows, cut, window_of
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit
from notifier.domain.delivery.ledger import Claim
from notifier.domain.delivery.plan import plan
from notifier.domain.delivery.slice import Done, Slice, Step
from notifier.domain.ids import BurstKey, Lane, UserId
from notifier.flow.delivery.row_writer import Delivery
from notifier.flow.delivery.slice_worker import SliceLease, Work
from notifier.flow.indexing.bitmaps import MendedSets
from notifier.flow.lane_guard import LaneGuards
from notifier.metrics import Metrics

# The leanest SQLite writer of the same rows: values made beforehand, one transaction a file, and nothing else.

_INSERT = "INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?)"

Values = tuple[int, int, str, int, int, str, bytes]
"""As the columns are: range, inbox window, subject, opened at, seq, tier, members."""


class LeanWriter:
    """Writes into files of its own, with the same pragmas, in the key's order."""

    def __init__(self, files: Files, rows: Iterable[InboxRows]) -> None:
        self._files = files
        self._values: dict[int, list[Values]] = defaultdict(list)
        for one in rows:
            self._values[one.shard % len(files.inboxes)] += _values(one)
        for values in self._values.values():
            values.sort(key=lambda v: v[:6])

    def __len__(self) -> int:
        return sum(map(len, self._values.values()))

    def write(self) -> None:
        for file, values in self._values.items():
            with self._files.inboxes[file].write() as c:
                c.executemany(_INSERT, values)


def _values(rows: InboxRows) -> list[Values]:
    key = (window_of(rows.opened_at), str(rows.burst.subject), to_ms(rows.opened_at), rows.burst.seq, str(rows.tier))
    assert all(member_range // SHARD_RANGES == rows.shard for member_range in rows.ranges)
    return [(each, *key, members) for each, members in zip(rows.ranges, rows.members, strict=True)]


SEAL_SHARD_MS = 2.0
SEALS_WITHIN = timedelta(hours=1)
RATIO = 0.8
WARMING = 2
"""Rounds that aren't counted: the first one lengthens the write-ahead logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One density: what to load, and how many rounds."""

    percent: float
    """Of a range that P1 reaches."""
    shards: int
    rounds: int
    """An even number, so that either side is the first equally often."""

    @property
    def name(self) -> str:
        return shown(self.percent)

    @property
    def world(self) -> World:
        return everybody_follows(self.shards * SHARD_MEMBERS, self.percent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """A data folder with a world, and the stage on it."""

    files: Files
    world: World
    clock: SystemClock
    work: Work
    delivery: Delivery

    @classmethod
    def make(cls, folder: Path, world: World) -> "Bed":
        files, clock, metrics = Files.at(folder), SystemClock(), Metrics()
        files.migrate()
        sets = SqliteMemberSets(files.core)
        follows, wants = SqliteFollows(files.core), SqliteWants(files.core)
        Load(
            directory=SqliteDirectory(files.core),
            sets=sets,
            follows=follows,
            stays=SqliteStays(files.core),
            wants=wants,
            devices=SqliteDevices(files.core, clock),
            clock=clock,
        )(world)
        delivery = Delivery(
            sets=MendedSets(port=sets, log=SqliteLog(files.log, clock), clock=clock),
            seals=SqliteSeals(files.inboxes, clock),
            inbox=SqliteInbox(files.inboxes),
            clock=clock,
            metrics=metrics,
        )
        work = Work(
            doings={Step.ROWS: delivery},
            bursts=SqliteBursts(files.core),
            claims=SqliteClaims(files.core),
            ledger=SqliteLedger(files.core),
            dead_letters=SqliteDeadLetters(files.core),
            guards=LaneGuards(
                limit=DeadLetterLimit(),
                tallies=SqliteLaneTallies(files.core),
                clock=clock,
                metrics=metrics,
                owner="bench",
            ),
            clock=clock,
            metrics=metrics,
            owner="bench",
        )
        return cls(files=files, world=world, clock=clock, work=work, delivery=delivery)

    def burst(self, seq: int) -> tuple[Burst, list[Slice]]:
        """A new burst with its plan, and its P1 slices."""
        burst = opened(BurstKey(self.world.subject(0), seq), self.clock.now())
        planned = plan(burst, self.delivery.sets.port.head(burst.key.subject))
        self.work.bursts.write([burst], [])
        self.work.ledger.plan([planned])
        return burst, [piece for piece in planned.slices() if piece.step is Step.ROWS and piece.tier is Tier.P1]

    def seal(self, burst: Burst, pieces: list[Slice]) -> Cost:
        """As a worker does it on its way to the rows; what it took, claims left out."""
        took = Cost(seconds=0.0, processor=0.0)
        for piece in pieces:
            now = self.clock.now()
            # Of nobody, and too long to be renewed: the slice's first claim is still to come.
            claim = Claim(slice=piece, attempt=1, owner="sealer", claimed_at=now, until=now + SEALS_WITHIN)
            hold = SliceLease(claim, self.work.claims, self.clock)
            took += cost(partial(deque, self.delivery.parts(burst, piece.shards, piece.tier, hold), 0))
        return took

    def deliver(self, pieces: list[Slice]) -> None:
        for piece in pieces:
            outcome = self.work(piece)
            assert isinstance(outcome, Done), outcome

    def rows(self, burst: Burst, pieces: list[Slice]) -> Iterator[InboxRows]:
        for piece in pieces:
            for shard, part in self.delivery.seals.parts(burst.key, piece.shards, piece.tier).items():
                yield cut(part.members, burst=burst.key, opened_at=burst.opened_at, tier=piece.tier, shard=shard)


def opened(key: BurstKey, now: datetime) -> Burst:
    return Burst(
        key=key,
        version=1,
        opened_at=now,
        accepted_at=now,
        lane=Lane.CELEBRITY,
        verdict=Verdict.ALL,
        mentioners=(UserId("ada"),),
        more_mentioners=False,
        count=1,
        first_of_day=True,
        restricted_to=None,
        tweet="t",
        text="",
    )


DENSITIES = (0.5, 5, 25)
"""Percent of a range that a burst reaches."""


def cases(*, quick: bool) -> Sequence[Case]:
    shards, rounds = (128, 6) if quick else (512, 10)
    return [Case(percent=percent, shards=shards, rounds=rounds) for percent in DENSITIES]


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    figures: list[Figure] = []
    sealing: list[float] = []
    for case in cases(quick=quick):
        tell(f"filling inboxes for {case.name} of a range")
        with _beds(folder / case.name, case) as (bed, lean):
            tell(f"delivering to {case.name} of a range")
            timings = _measure(bed, lean, case)
        figures += timings.figures(case.name)
        sealing += [one.seconds / case.shards * 1000 for one in timings.sealing]
    return [*figures, median_at_most("seal_shard_ms", sealing, SEAL_SHARD_MS, unit="ms")]


@contextmanager
def _beds(folder: Path, case: Case) -> Iterator[tuple[Bed, Files]]:
    """Ours and the baseline's files, filled alike."""
    shards = range(case.shards)
    prefill(folder / "ours", shards, window=window_of(SystemClock().now()))
    shutil.copytree(folder / "ours", folder / "lean")
    bed, lean = Bed.make(folder / "ours", case.world), Files.at(folder / "lean")
    try:
        yield bed, lean
    finally:
        bed.files.close()
        lean.close()
        shutil.rmtree(folder)


@dataclass(slots=True, kw_only=True)
class Timings:
    """What each round took."""

    sealing: list[Cost] = field(default_factory=list)
    ours: list[Cost] = field(default_factory=list)
    lean: list[Cost] = field(default_factory=list)
    rows: int = 0

    def figures(self, name: str) -> list[Figure]:
        whole = [o + s for o, s in zip(self.ours, self.sealing, strict=True)]
        return [
            ratio(f"fanout_ratio_prefilled{{{name}}}", self.ours, self.lean, RATIO, rows=self.rows),
            ratio(f"fanout_ratio_with_seal{{{name}}}", whole, self.lean, None, rows=self.rows),
        ]


def _measure(bed: Bed, lean: Files, case: Case) -> Timings:
    """The seals alone, then the rows of both in turns; the first two rounds warm both up, one in either order."""
    timings = Timings()
    with Settling.of(bed.files) as ours, Settling.of(lean) as theirs:
        for number in range(case.rounds + WARMING):
            sealing, mine, others = _round(bed, ours, theirs, number, timings)
            if number >= WARMING:
                timings.sealing.append(sealing)
                timings.ours.append(mine)
                timings.lean.append(others)
    return timings


def _round(bed: Bed, ours: Settling, lean: Settling, number: int, timings: Timings) -> tuple[Cost, Cost, Cost]:
    """Both write the same rows into files that hold the same, so that pages split in the same rounds."""
    burst, pieces = bed.burst(number + 1)
    sealing = bed.seal(burst, pieces)
    writer = LeanWriter(lean.files, bed.rows(burst, pieces))
    timings.rows = len(writer)
    if number % 2:
        mine = ours(lambda: bed.deliver(pieces))
        return sealing, mine, lean(writer.write)
    theirs = lean(writer.write)
    return sealing, ours(lambda: bed.deliver(pieces)), theirs
