"""Measures the delivery stage against the leanest writer in pre-filled inboxes, and audience snapshots."""

import shutil
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from benchmarks.costs_and_figures import Cost, Figure, cost, median_at_most, ratio
from benchmarks.emptied_sqlite_logs import SettledFiles
from benchmarks.fanout.density_worlds import everybody_follows, shown
from benchmarks.fanout.prefill_inboxes import prefill
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.log.log import SqliteLog
from notifier.adapters.sqlite.stores.audience_snapshots import SqliteAudienceSnapshots
from notifier.adapters.sqlite.stores.bursts_and_sequence_heads import SqliteBursts
from notifier.adapters.sqlite.stores.dead_letters import SqliteDeadLetters, SqliteDeadLetterTallies
from notifier.adapters.sqlite.stores.devices import SqliteDevices
from notifier.adapters.sqlite.stores.follows import SqliteFollows
from notifier.adapters.sqlite.stores.inbox_rows import SqliteInbox
from notifier.adapters.sqlite.stores.ledger_and_deferred_bursts import SqliteClaims, SqliteLedger
from notifier.adapters.sqlite.stores.member_sets_and_active_sets import SqliteActiveSets, SqliteMemberSets
from notifier.adapters.sqlite.stores.preferences_and_user_blocks import SqliteSubjectPreferences
from notifier.adapters.sqlite.stores.user_directory_and_account_flags import SqliteDirectory
from notifier.codec.messagepack import to_ms
from notifier.devkit.fixture.world import World
from notifier.devkit.fixture.world_loader_and_markers import WorldLoader
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.inbox_rows import SHARD_RANGES, InboxRows, cut_inbox_rows, window_of
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit
from notifier.domain.delivery.ledger import Claim
from notifier.domain.delivery.plan import make_plan
from notifier.domain.delivery.slice_and_pool import Done, Slice, Step
from notifier.domain.ids import BurstKey, Lane, UserId
from notifier.flow.dead_letter_lane_stops import LaneGuards
from notifier.flow.delivery.slice_worker import SliceLease, SliceWorker
from notifier.flow.delivery.snapshot_and_row_writer import RowWriter
from notifier.flow.indexing.bitmap_updates_and_repair import SelfRepairingSets
from notifier.metrics import Metrics

# The leanest SQLite writer of the same rows: values made in advance, and one transaction per file.

_INSERT = "INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?)"

Values = tuple[int, int, str, int, int, str, bytes]
"""The columns: range, inbox window, subject, opened at, seq, tier, members."""


class LeanestRowWriter:
    """Writes into files of its own with the same pragmas, in the order of the key."""

    def __init__(self, files: Files, rows: Iterable[InboxRows]) -> None:
        self._files = files
        self._values: dict[int, list[Values]] = defaultdict(list)
        for group in rows:
            self._values[group.shard % len(files.inboxes)] += _values(group)
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
    return [(range_, *key, members) for range_, members in zip(rows.ranges, rows.members, strict=True)]


SNAPSHOT_SHARD_MS = 2.0
SNAPSHOT_LEASE = timedelta(hours=1)
RATIO = 0.8
WARM_UP_ROUNDS = 2
"""Rounds that are not counted: the first one lengthens the write-ahead logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DensityCase:
    """One density: the world to load, and the number of rounds."""

    percent: float
    """Percentage of a range that P1 reaches."""
    shards: int
    rounds: int
    """An even number, so that each side goes first equally often."""

    @property
    def name(self) -> str:
        return shown(self.percent)

    @property
    def world(self) -> World:
        return everybody_follows(self.shards * SHARD_MEMBERS, self.percent)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryBed:
    """A data folder with a world, and the delivery stage on it."""

    files: Files
    world: World
    clock: SystemClock
    work: SliceWorker
    delivery: RowWriter

    @classmethod
    def make(cls, folder: Path, world: World) -> "DeliveryBed":
        files, clock, metrics = Files.at(folder), SystemClock(), Metrics()
        files.migrate()
        sets = SqliteMemberSets(files.core)
        follows, subject_preferences = SqliteFollows(files.core), SqliteSubjectPreferences(files.core)
        WorldLoader(
            directory=SqliteDirectory(files.core),
            sets=sets,
            follows=follows,
            active_sets=SqliteActiveSets(files.core),
            subject_preferences=subject_preferences,
            devices=SqliteDevices(files.core, clock),
            clock=clock,
        )(world)
        delivery = RowWriter(
            sets=SelfRepairingSets(sets=sets, log=SqliteLog(files.log, clock), clock=clock),
            audience_snapshots=SqliteAudienceSnapshots(files.inboxes, clock),
            inbox=SqliteInbox(files.inboxes),
            clock=clock,
            metrics=metrics,
        )
        work = SliceWorker(
            handlers={Step.ROWS: delivery},
            bursts=SqliteBursts(files.core),
            claims=SqliteClaims(files.core),
            ledger=SqliteLedger(files.core),
            dead_letters=SqliteDeadLetters(files.core),
            guards=LaneGuards(
                limit=DeadLetterLimit(),
                tallies=SqliteDeadLetterTallies(files.core),
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
        """Return a new burst with its plan, and its P1 slices."""
        burst = opened(BurstKey(self.world.subject(0), seq), self.clock.now())
        planned = make_plan(burst, self.delivery.sets.sets.follower_counts(burst.key.subject))
        self.work.bursts.write([burst], [])
        self.work.ledger.store_plans([planned])
        return burst, [slice_ for slice_ in planned.slices() if slice_.step is Step.ROWS and slice_.tier is Tier.P1]

    def write_snapshots(self, burst: Burst, slices: list[Slice]) -> Cost:
        """Write the audience snapshots as a worker does before its rows. Return the cost without claims."""
        took = Cost(seconds=0.0, processor=0.0)
        for slice_ in slices:
            now = self.clock.now()
            # A claim outside the ledger that is too long to need renewal: the slice's first claim is still to come.
            claim = Claim(slice=slice_, number=1, owner="snapshot-writer", claimed_at=now, until=now + SNAPSHOT_LEASE)
            hold = SliceLease(claim, self.work.claims, self.clock)
            took += cost(partial(deque, self.delivery.read_snapshots(burst, slice_.shards, slice_.tier, hold), 0))
        return took

    def deliver(self, slices: list[Slice]) -> None:
        for slice_ in slices:
            outcome = self.work(slice_)
            assert isinstance(outcome, Done), outcome

    def rows(self, burst: Burst, slices: list[Slice]) -> Iterator[InboxRows]:
        for slice_ in slices:
            for shard, part in self.delivery.audience_snapshots.read_tier(
                burst.key, slice_.shards, slice_.tier
            ).items():
                yield cut_inbox_rows(
                    part.members, burst=burst.key, opened_at=burst.opened_at, tier=slice_.tier, shard=shard
                )


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
"""Percentages of a range that a burst reaches."""


def cases(*, quick: bool) -> Sequence[DensityCase]:
    shards, rounds = (128, 6) if quick else (512, 10)
    return [DensityCase(percent=percent, shards=shards, rounds=rounds) for percent in DENSITIES]


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    figures: list[Figure] = []
    snapshot_costs: list[float] = []
    for case in cases(quick=quick):
        tell(f"filling inboxes for {case.name} of a range")
        with _beds(folder / case.name, case) as (bed, lean):
            tell(f"delivering to {case.name} of a range")
            timings = _measure(bed, lean, case)
        figures += timings.figures(case.name)
        snapshot_costs += [snapshot_cost.seconds / case.shards * 1000 for snapshot_cost in timings.snapshot_costs]
    return [*figures, median_at_most("snapshot_shard_ms", snapshot_costs, SNAPSHOT_SHARD_MS, unit="ms")]


@contextmanager
def _beds(folder: Path, case: DensityCase) -> Iterator[tuple[DeliveryBed, Files]]:
    """Yield our files and the baseline's, with the same content."""
    shards = range(case.shards)
    prefill(folder / "ours", shards, window=window_of(SystemClock().now()))
    shutil.copytree(folder / "ours", folder / "lean")
    bed, lean = DeliveryBed.make(folder / "ours", case.world), Files.at(folder / "lean")
    try:
        yield bed, lean
    finally:
        bed.files.close()
        lean.close()
        shutil.rmtree(folder)


@dataclass(slots=True, kw_only=True)
class Timings:
    """Cost of each round."""

    snapshot_costs: list[Cost] = field(default_factory=list)
    ours: list[Cost] = field(default_factory=list)
    lean: list[Cost] = field(default_factory=list)
    rows: int = 0

    def figures(self, name: str) -> list[Figure]:
        whole = [o + s for o, s in zip(self.ours, self.snapshot_costs, strict=True)]
        return [
            ratio(f"fanout_ratio_prefilled{{{name}}}", self.ours, self.lean, RATIO, rows=self.rows),
            ratio(f"fanout_ratio_with_snapshot{{{name}}}", whole, self.lean, None, rows=self.rows),
        ]


def _measure(bed: DeliveryBed, lean: Files, case: DensityCase) -> Timings:
    """Write the snapshots alone, then the rows of both sides in turns.

    The first two rounds are a warm-up, one in each order.
    """
    timings = Timings()
    with SettledFiles.of(bed.files) as ours, SettledFiles.of(lean) as theirs:
        for number in range(case.rounds + WARM_UP_ROUNDS):
            snapshot_costs, mine, theirs_ = _round(bed, ours, theirs, number, timings)
            if number >= WARM_UP_ROUNDS:
                timings.snapshot_costs.append(snapshot_costs)
                timings.ours.append(mine)
                timings.lean.append(theirs_)
    return timings


def _round(
    bed: DeliveryBed, ours: SettledFiles, lean: SettledFiles, number: int, timings: Timings
) -> tuple[Cost, Cost, Cost]:
    """Write the same rows into files with the same content, so that pages split in the same rounds."""
    burst, slices = bed.burst(number + 1)
    snapshot_costs = bed.write_snapshots(burst, slices)
    writer = LeanestRowWriter(lean.files, bed.rows(burst, slices))
    timings.rows = len(writer)
    if number % 2:
        mine = ours(lambda: bed.deliver(slices))
        return snapshot_costs, mine, lean(writer.write)
    theirs = lean(writer.write)
    return snapshot_costs, ours(lambda: bed.deliver(slices)), theirs
