"""Measures the coordinator on Cassandra: mentions of one celebrity, and of 500 celebrities.

The coordinator is called as its pump calls it, with records as the router makes them. Log, pull index and live bus are
left out, so that only the store's part is measured.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from zlib import crc32

from benchmarks.cassandra.measured_node import running_node
from benchmarks.costs_and_figures import Figure, Spread
from benchmarks.fanout.planning import FEW_FOLLOWERS, shard_counts
from notifier import topics
from notifier.adapters.cassandra import (
    CassandraBursts,
    CassandraDirectory,
    CassandraHeads,
    CassandraLedger,
    CassandraMemberSets,
    CassandraRetractions,
    Cluster,
)
from notifier.adapters.clock_and_nonces import SystemClock, UuidNonces
from notifier.codec import pack
from notifier.consumer_loop import BATCH_SIZE
from notifier.devkit.check.finding_and_quantiles import at_least
from notifier.domain.bursts.events_and_mentions import EventId, Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.ids import Kind, Lane, Member, Subject, UserId
from notifier.flow.sequencing.burst_publishing_and_planning import Publisher
from notifier.flow.sequencing.live_publisher import LivePublisher
from notifier.flow.sequencing.mention_coordinator import Coordinator
from notifier.flow.sequencing.retracted_burst_updates import RetractionSettlement
from notifier.metrics import Metrics
from notifier.ports.event_log_and_dead_letters import Logged, Record
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.support.fakes.live_bus import MemoryLiveBus
from tests.support.fakes.pull_index import MemoryPullIndex

HOT_PER_S, MANY_PER_S = 2_000.0, 500
CELEBRITIES = 500
ROUNDS, BATCHES, BATCHES_QUICK = 5, 20, 6
"""Rounds of the single celebrity, after a warm-up of the same number of batches."""
WARM_UP_BATCHES, WARM_UP_BATCHES_QUICK = 100, 5
"""Batches of each lane before measuring. On a cold node a conditional write takes five times as long, and a third of
the CPU time goes to the JIT compiler."""
HELD_S, HELD_QUICK_S = 60, 10
MAX_BEHIND_S = 1.0
"""Records that have waited longer than this at the end are not counted as processed."""


@dataclass(slots=True, kw_only=True)
class LaneRecords:
    """A lane's records: its subjects in turns, each in the partition of its subject."""

    subjects: Sequence[Subject]
    lane: Lane
    clock: SystemClock = field(default_factory=SystemClock)
    _numbers: Iterator[int] = field(default_factory=count)

    def batch(self, size: int) -> list[Logged]:
        stream, now = topics.LANE_STREAM[self.lane], self.clock.now()
        records = []
        for _ in range(size):
            number = next(self._numbers)
            subject = self.subjects[number % len(self.subjects)]
            mention = Mention(
                event=EventId("bench", f"{subject}-{number}"),
                subject=subject,
                tweet=f"t{number}",
                author=UserId(f"u{number}"),
                text="@you have you seen this",
                protected=False,
                verdict=Verdict.ALL,
                lane=self.lane,
                followers=FEW_FOLLOWERS if subject.kind is Kind.MENTION else 1,
                happened_at=now,
                accepted_at=now,
            )
            partition = crc32(str(subject).encode()) % topics.PARTITION_COUNTS[stream]
            record = Record(stream=stream, key=topics.lane_key(subject), value=pack(mention))
            records.append(Logged(partition=f"{stream}/{partition}", offset=number, record=record))
        return records


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRate:
    """Progress of a lane while its records arrived at a constant rate."""

    done: int
    lags: Sequence[float]
    """Seconds that the oldest record had waited at the end of each batch."""

    def halves(self) -> tuple[float, float]:
        """Return the longest waits of the first half of the batches, and of the second half."""
        middle = len(self.lags) // 2
        return max(self.lags[:middle], default=0.0), max(self.lags[middle:], default=0.0)


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    names = [UserId(f"star{number}") for number in range(CELEBRITIES)]
    with running_node(folder) as node:
        _enrol(node.cluster, [UserId("nova"), *names])
        tell("mentions of one celebrity")
        figures = [_hot(coordinator(node.cluster), BATCHES_QUICK if quick else BATCHES)]
        seconds = HELD_QUICK_S if quick else HELD_S
        tell(f"{MANY_PER_S} mentions per second of {CELEBRITIES} celebrities, for {seconds} s")
        return [*figures, _many(node.cluster, names, seconds, WARM_UP_BATCHES_QUICK if quick else WARM_UP_BATCHES)]


def _enrol(cluster: Cluster, names: Sequence[UserId]) -> None:
    sets, counts = CassandraMemberSets(cluster), shard_counts(FEW_FOLLOWERS)
    for name in names:
        sets.put_follower_counts({Subject(Kind.MENTION, name): FollowerCounts(total=FEW_FOLLOWERS, by_shard=counts)})
    CassandraDirectory(cluster).enrol([DirectoryEntry(user=name, member=Member(n)) for n, name in enumerate(names)])


def coordinator(cluster: Cluster) -> Coordinator:
    clock, nonces = SystemClock(), UuidNonces()
    bursts = CassandraBursts(cluster, clock)
    publisher = Publisher(
        heads=CassandraHeads(cluster),
        bursts=bursts,
        sets=CassandraMemberSets(cluster),
        ledger=CassandraLedger(cluster, clock),
        pull=MemoryPullIndex(clock),
        live_publisher=LivePublisher(bus=MemoryLiveBus()),
        clock=clock,
        nonces=nonces,
        metrics=Metrics(),
    )
    retractions = CassandraRetractions(cluster)
    settlement = RetractionSettlement(
        retractions=retractions, bursts=bursts, publisher=publisher, clock=clock, nonces=nonces
    )
    return Coordinator(bursts=bursts, settlement=settlement, publisher=publisher, clock=clock, nonces=nonces)


def _hot(stage: Coordinator, batches: int) -> Figure:
    arrivals = LaneRecords(subjects=[Subject(Kind.MENTION, UserId("nova"))], lane=Lane.CELEBRITY)
    rates = []
    for number in range(ROUNDS + 1):
        batches_ = [arrivals.batch(BATCH_SIZE) for _ in range(batches)]
        began = time.perf_counter()
        for batch in batches_:
            stage(batch)
        if number:
            rates.append(batches * BATCH_SIZE / (time.perf_counter() - began))
    spread, detail = Spread.of(rates, "1/s"), f"median; coordinator only, {BATCH_SIZE} records per batch"
    name, n = "hot_celebrity_mentions_per_s", len(rates) * batches * BATCH_SIZE
    return Figure(finding=at_least(name, spread.median, HOT_PER_S, unit="1/s", n=n, detail=detail), ours=spread)


def _many(cluster: Cluster, names: Sequence[UserId], seconds: int, warming: int) -> Figure:
    """Measure both lanes.

    As the router does, each event becomes a record of the followers' subject and one of the celebrity's own. The
    coordinators of both lanes are threads of one process, as in the pump.
    """
    lanes = {Lane.CELEBRITY: Kind.MENTION, Lane.STANDARD: Kind.SELF}
    lanes_and_arrivals = [
        (coordinator(cluster), LaneRecords(subjects=[Subject(kind, name) for name in names], lane=lane))
        for lane, kind in lanes.items()
    ]
    with ThreadPoolExecutor(len(lanes_and_arrivals)) as pool:
        list(pool.map(lambda item: [item[0](item[1].batch(BATCH_SIZE)) for _ in range(warming)], lanes_and_arrivals))
        results = list(pool.map(lambda item: hold(item[0], item[1], seconds), lanes_and_arrivals))
    rate = min(item.done for item in results) / seconds
    early, late = (max(waits, default=0.0) for waits in zip(*(item.halves() for item in results), strict=True))
    detail = (
        f"coordinator only, both lanes for {seconds} s; longest wait of a record at the end of a batch: "
        f"{early:.2f} s in the first half of the batches, {late:.2f} s in the second"
    )
    n = sum(item.done for item in results)
    return Figure(
        finding=at_least("mentions_500_per_s", rate, MANY_PER_S, unit="1/s", n=n, detail=detail),
        ours=Spread.of([item.done / seconds for item in results], "1/s"),
    )


def hold(
    stage: Callable[[Sequence[Logged]], None],
    arrivals: LaneRecords,
    seconds: int,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> HeldRate:
    """Process the records that have arrived, at most a batch at a time, until all are done or the time is over."""
    began, done, every = now(), 0, MANY_PER_S * seconds
    lags = []
    while done < every:
        size = min(BATCH_SIZE, every - done, int((now() - began) * MANY_PER_S) - done)
        if size < 1:
            sleep(1 / MANY_PER_S)
            continue
        stage(arrivals.batch(size))
        if (passed := now() - began) > seconds + MAX_BEHIND_S:
            break
        lags.append(passed - done / MANY_PER_S)
        done += size
    return HeldRate(done=done, lags=lags)
