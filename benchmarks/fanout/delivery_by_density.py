"""Measures users reached per second by density, against three other writers."""

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.costs_and_figures import Figure, Spread
from benchmarks.emptied_sqlite_logs import SettledFiles
from benchmarks.fanout.density_worlds import Lively
from benchmarks.fanout.row_and_snapshot_writes import DeliveryBed, LeanestRowWriter
from benchmarks.peers.audience import sample
from benchmarks.peers.delivery_comparison import Pythons
from benchmarks.peers.registry import PEERS
from benchmarks.peers.subprocess_peer import PeerProcess
from benchmarks.peers.valkey import PeersValkey, peers_valkey
from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.codec.messagepack import to_ms
from notifier.devkit.check.check_run import Report
from notifier.devkit.check.finding_and_quantiles import Finding, at_least, at_most
from notifier.domain.audience.bitmap import (
    BLOCK_MEMBERS,
    SHARD_BLOCKS,
    SHARD_MEMBERS,
    WHOLE_BLOCK_SLOT,
    Bits,
    count,
    offsets,
)
from notifier.domain.audience.inbox_rows import window_of
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.slice_and_pool import Slice

ROUNDS, ROUNDS_QUICK = 6, 3
WARM_UP_ROUNDS = 2
UNIT = "deliveries/s"
LEAN_RATIO = 0.8
PEER_PEOPLE = 60_000
"""Maximum number of users that the peer reaches in a round, which takes it a second."""
ZADD = next(peer for peer in PEERS if peer.name == "pipelined_zadd")


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstDensity:
    per_mille: int
    """Users of 1,000 that a burst reaches."""
    shards: int
    gain: float
    """Least multiple of the speed with the previous row layout."""
    peer: float | None = None
    """Least multiple of the peer's speed. None means reported, not judged."""
    bytes: float | None = None
    """Maximum bytes on disk per delivery."""

    @property
    def name(self) -> str:
        return f"{self.per_mille / 10:g}%"

    def world(self, *, quick: bool) -> Lively:
        universe = self.size(quick=quick) * SHARD_MEMBERS
        return Lively(universe=universe, followers=universe, celebrities=1, seed=1, active=self.per_mille)

    def size(self, *, quick: bool) -> int:
        return self.shards // 4 if quick else self.shards


DENSITIES = (
    BurstDensity(per_mille=1, shards=512, gain=1),
    BurstDensity(per_mille=5, shards=512, gain=4, bytes=8),
    BurstDensity(per_mille=10, shards=256, gain=5, peer=1),
    BurstDensity(per_mille=20, shards=128, gain=4),
    BurstDensity(per_mille=50, shards=512, gain=1),
    BurstDensity(per_mille=250, shards=512, gain=1),
)
"""Fewer shards where the previous row layout takes seconds."""


def names() -> tuple[str, ...]:
    kinds = ("density_gain", "density_lean", "density_zadd", "density_bytes")
    return tuple(f"{kind}{{{density.name}}}" for density in DENSITIES for kind in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class DensityBench:
    pythons: Pythons

    def __call__(self, folder: Path, *, quick: bool, tell: Report) -> list[Figure]:
        with peers_valkey(folder) as valkey, ExitStack() as stack:
            tell(f"getting ready: {ZADD.name}")
            guest = PeerProcess(
                python=self.pythons(ZADD.environment),
                place=ZADD.place,
                argument=str(valkey.socket),
                log=folder / f"{ZADD.name}.log",
            )
            peer = DensityPeer(guest=stack.enter_context(guest), valkey=valkey, folder=folder)
            figures = list[Figure]()
            for density in DENSITIES:
                figures += _figures(density, _measure(folder / density.name, density, peer, quick=quick, tell=tell))
            return figures


@dataclass(frozen=True, slots=True, kw_only=True)
class DensityPeer:
    guest: PeerProcess
    valkey: PeersValkey
    folder: Path

    def rate(self, everybody: np.ndarray[tuple[int], np.dtype[np.int64]], number: int) -> float:
        """Measure the peer with a sample. It takes as long per user as with the whole audience."""
        people, path = sample(everybody, PEER_PEOPLE), self.folder / "people"
        people.astype("=i8").tofile(path)
        self.valkey.forget()
        return len(people) / self.guest.deliver(path, len(people), number)


@dataclass(slots=True, kw_only=True)
class DensityRates:
    """Deliveries per second, by round."""

    ours: list[float] = field(default_factory=list)
    lean: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    bytes: float = 0.0
    """Bytes on disk per delivery."""
    people: int = 0


def _measure(folder: Path, density: BurstDensity, peer: DensityPeer, *, quick: bool, tell: Report) -> DensityRates:
    """Measure the writers on files that are empty at the start, each first in turn, and then the peer."""
    tell(f"{density.name}: loading {density.world(quick=quick).universe:,} users")
    rates, rounds = DensityRates(), ROUNDS_QUICK if quick else ROUNDS
    with _beds(folder, density, quick=quick) as (bed, lean, before):
        held = _bytes(lean.files)
        delivered = 0
        for number in range(rounds + WARM_UP_ROUNDS):
            tell(
                f"{density.name}: round {number - WARM_UP_ROUNDS + 1} of {rounds}"
                if number >= WARM_UP_ROUNDS
                else "warm-up"
            )
            burst, slices = bed.burst(number + 1)
            bed.write_snapshots(burst, slices)
            reached = _reached(bed, burst, slices)
            people = rates.people = sum(count(bits) for bits in reached.values())
            mine, leanest = SettledFiles.of(bed.files), LeanestRowWriter(lean.files, bed.rows(burst, slices))
            former = FormerRows(before.files, burst, reached)
            with mine as settling:
                works: Sequence[tuple[list[float], SettledFiles, Callable[[], None]]] = (
                    (rates.ours, settling, lambda slices=slices: bed.deliver(slices)),  # type: ignore[misc]  # a default binds the round's
                    (rates.lean, lean, leanest.write),
                    (rates.before, before, former.write),
                )
                turn = number % len(works)
                for rates_of_writer, place, work in (*works[turn:], *works[:turn]):
                    rates_of_writer.append(people / place(work).seconds)
            everybody = np.concatenate([offsets(bits) + shard * SHARD_MEMBERS for shard, bits in reached.items()])
            rates.peer.append(peer.rate(everybody, number))
            delivered += people
        rates.bytes = (_bytes(lean.files) - held) / delivered
    for rates_of_writer in (rates.ours, rates.lean, rates.before, rates.peer):
        del rates_of_writer[:WARM_UP_ROUNDS]
    return rates


@contextmanager
def _beds(
    folder: Path, density: BurstDensity, *, quick: bool
) -> Iterator[tuple[DeliveryBed, SettledFiles, SettledFiles]]:
    for name in ("lean", "before"):
        (folder / name).mkdir(parents=True)
    bed = DeliveryBed.make(folder / "ours", density.world(quick=quick))
    lean, before = Files.at(folder / "lean"), Files.at(folder / "before")
    lean.migrate()
    before.migrate()
    for inbox in before.inboxes:
        with inbox.write() as c:
            c.execute(FORMER_TABLE)
    try:
        with SettledFiles.of(lean) as leanest, SettledFiles.of(before) as former:
            yield bed, leanest, former
    finally:
        for files in (bed.files, lean, before):
            files.close()
        shutil.rmtree(folder)


def _reached(bed: DeliveryBed, burst: Burst, slices: Sequence[Slice]) -> Mapping[int, Bits]:
    """Return the members that are reached, by shard."""
    return {
        shard: part.members
        for slice_ in slices
        for shard, part in bed.delivery.audience_snapshots.read_tier(burst.key, slice_.shards, slice_.tier).items()
    }


def _bytes(files: Files) -> int:
    return sum(_pages(inbox) for inbox in files.inboxes)


def _pages(inbox: Database) -> int:
    with inbox.read() as c:
        [pages], [size] = (c.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
        return int(pages * size)


FORMER_MIN_SHARED = 32
"""Members of a block of 1,024 from which on they shared a row."""
FORMER_TABLE = """
CREATE TABLE former_inbox (
    block INTEGER NOT NULL, inbox_window INTEGER NOT NULL, slot INTEGER NOT NULL, opened_at INTEGER NOT NULL,
    subject TEXT NOT NULL, seq INTEGER NOT NULL, tier TEXT NOT NULL, members BLOB,
    PRIMARY KEY (block, inbox_window, slot, opened_at, subject, seq, tier)
) WITHOUT ROWID
"""
_INSERT = "INSERT INTO former_inbox VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

Values = tuple[int, int, int, int, str, int, str, bytes | None]


class FormerRows:
    """The leanest writer of the previous row layout: a row per user, or per block if many of it are reached.

    It is a lower bound: the product itself was slower.
    """

    def __init__(self, files: Files, burst: Burst, reached: Mapping[int, Bits]) -> None:
        self._files = files
        self._values: dict[int, list[Values]] = defaultdict(list)
        for shard, bits in reached.items():
            self._values[shard % len(files.inboxes)] += _former(burst, shard, bits)
        for values in self._values.values():
            values.sort(key=lambda row: row[:3])

    def write(self) -> None:
        for file, values in self._values.items():
            with self._files.inboxes[file].write() as c:
                c.executemany(_INSERT, values)


def _former(burst: Burst, shard: int, bits: Bits) -> Iterator[Values]:
    window, at = window_of(burst.opened_at), to_ms(burst.opened_at)
    tail = (at, str(burst.key.subject), burst.key.seq, str(Tier.P1))
    by_block = bits.reshape(SHARD_BLOCKS, -1)
    reached = np.bitwise_count(by_block).sum(axis=1, dtype=np.int64)
    for block in np.flatnonzero(reached >= FORMER_MIN_SHARED).tolist():
        yield shard * SHARD_BLOCKS + block, window, WHOLE_BLOCK_SLOT, *tail, by_block[block].tobytes()
    few = np.flatnonzero((reached > 0) & (reached < FORMER_MIN_SHARED))
    number, slot = np.divmod(offsets(by_block[few].reshape(-1)), BLOCK_MEMBERS)
    for block, place in zip((few[number] + shard * SHARD_BLOCKS).tolist(), slot.tolist(), strict=True):
        yield block, window, place, *tail, None


def _figures(density: BurstDensity, rates: DensityRates) -> list[Figure]:
    case = f"{{{density.name}}}"
    of = f"{rates.people:,} users per round"
    return [
        _ratio(f"density_gain{case}", rates.ours, rates.before, density.gain, f"{of}; the previous row layout"),
        _ratio(f"density_lean{case}", rates.ours, rates.lean, LEAN_RATIO, f"{of}; the leanest writer of the same rows"),
        _ratio(f"density_zadd{case}", rates.ours, rates.peer, density.peer, f"{of}; a pipelined ZADD per user"),
        Figure(finding=_size(f"density_bytes{case}", density, rates)),
    ]


def _ratio(
    name: str, ours: Sequence[float], theirs: Sequence[float], limit: float | None, baseline_name: str
) -> Figure:
    ratios = [mine / its for mine, its in zip(ours, theirs, strict=True)]
    speed = f"{median(ours):,.0f} against {median(theirs):,.0f} {UNIT}"
    detail = f"{baseline_name}; {speed}; {min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds"
    finding = at_least(name, median(ratios), limit or 0.0, unit="ratio", n=len(ratios), detail=detail)
    if limit is None:
        finding = replace(finding, limit=None)
    return Figure(finding=finding, ours=Spread.of(ours, UNIT), baseline=Spread.of(theirs, UNIT))


def _size(name: str, density: BurstDensity, rates: DensityRates) -> Finding:
    detail = "on disk per delivery, in files without other rows"
    finding = at_most(name, rates.bytes, density.bytes or 0.0, unit="bytes", n=rates.people, detail=detail)
    return finding if density.bytes is not None else replace(finding, limit=None, ok=True)
