"""The reconciler repairs the pull index and interrupted work, one duty independent of another."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from notifier import topics
from notifier.domain.audience.snapshot import SNAPSHOT_KEPT_FOR
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.bursts.sequencer import Head
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.errors import CacheUnavailable, Poison, StoreUnavailable
from notifier.domain.ids import BurstKey, Subject
from notifier.flow.delivery.publishing_and_index_reconciler import LOG_RETENTION, Reconciler
from notifier.ports.bursts import Heads, RecentBursts
from notifier.ports.inbox import InboxPosition
from notifier.ports.ledger_claims_deferred_bursts_scan import Ledger
from notifier.ports.pull_index import MAX_COMPARISON_AGE
from notifier.wiring.delivery import build_reconciler
from notifier.wiring.sequencing import build_publisher
from tests.support.failing_and_corrupt_ports import FailingPort
from tests.support.in_memory_system import LYRA, NOVA, Stage


@dataclass(frozen=True)
class Unreadable:
    """Raises Poison for the head of one subject."""

    heads: Heads
    bad: Subject = NOVA

    def __getattr__(self, name: str) -> Any:
        return getattr(self.heads, name)

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        if self.bad in subjects:
            raise Poison(f"The head of {self.bad}.")
        return self.heads.load(subjects)


@dataclass
class RecordedLog:
    """A log that records the calls of `drop_committed`."""

    dropped_before: list[datetime] = field(default_factory=list)

    def drop_committed(self, before: datetime) -> int:
        self.dropped_before.append(before)
        return 0


@dataclass
class Paged:
    """Returns at most two bursts a page."""

    recent: RecentBursts
    pages: int = 0

    def opened_since(self, moment: datetime, after: InboxPosition | None, limit: int) -> Sequence[Burst]:
        self.pages += 1
        return self.recent.opened_since(moment, after, min(limit, 2))


def failure_count(reconciler: Reconciler, duty: str) -> float:
    return reconciler.metrics.registry.get_sample_value("notifier_unreconciled_total", {"duty": duty}) or 0.0


def decide_without_publishing(stage: Stage, *names: str) -> None:
    """Decide bursts that their coordinator cannot publish."""
    stage.tweet(*names)
    stage.pump(topics.MENTIONS).step()
    for stream in (topics.MENTIONS_CELEBRITY, topics.MENTIONS_STANDARD):
        with pytest.raises(StoreUnavailable):
            stage.pump(stream, sets=FailingPort(stage.state.sets, StoreUnavailable)).step()


def test_reconciler_announces_what_redis_refused() -> None:
    stage = Stage()
    reconciler = build_reconciler(stage.system())
    reconciler()
    pump = stage.pump(topics.MENTIONS_CELEBRITY, pull=FailingPort(stage.state.pull, CacheUnavailable))
    stage.tweet("nova")
    stage.pump(topics.MENTIONS).step()
    pump.step()
    stage.state.clock.advance(MAX_COMPARISON_AGE + timedelta(milliseconds=1))
    assert stage.sees("kim") == ["mention:nova#1"]
    reconciler()
    assert NOVA in stage.state.pull.lists
    assert stage.sees("kim") == ["mention:nova#1"]


def test_index_is_rebuilt_page_by_page() -> None:
    stage = Stage(collapse=timedelta(0))
    for _ in range(5):
        stage.mention("lyra")
        stage.pass_time(seconds=1)
    stage.state.wipe()
    paged = Paged(stage.state.bursts)
    build_reconciler(stage.system(recent_bursts=paged))()
    assert paged.pages > 5
    assert len(stage.state.pull.lists[LYRA].opened) == 5


def test_unreadable_head_does_not_block_other_heads() -> None:
    stage = Stage()
    decide_without_publishing(stage, "nova", "lyra")
    assert set(stage.state.heads.unpublished(9)) >= {NOVA, LYRA}
    reconciler = build_reconciler(stage.system(heads=Unreadable(stage.state.heads)))
    reconciler.publisher = build_publisher(stage.system(heads=Unreadable(stage.state.heads)))
    reconciler()
    assert list(stage.state.heads.unpublished(9)) == [NOVA]
    assert failure_count(reconciler, "heads") == 1


def test_failed_duty_does_not_stop_the_others() -> None:
    stage = Stage()
    stage.mention("nova")
    log = RecordedLog()
    broken = {name: FailingPort(getattr(stage.state, name), Poison) for name in ("inbox", "ledger", "pull")}
    reconciler = build_reconciler(stage.system(**broken, log=log))
    reconciler()
    assert [failure_count(reconciler, duty) for duty in ("index", "totals", "sweep", "log")] == [1, 1, 1, 0]
    assert log.dropped_before == [stage.state.clock.now() - LOG_RETENTION]


def test_store_outage_ends_the_round() -> None:
    stage = Stage()
    with pytest.raises(StoreUnavailable):
        build_reconciler(stage.system(heads=FailingPort(stage.state.heads, StoreUnavailable)))()


def test_record_of_an_unreadable_head_becomes_a_dead_letter() -> None:
    stage = Stage()
    stage.tweet("nova")
    stage.tweet("lyra")
    stage.pump(topics.MENTIONS).step()
    for stream in (topics.MENTIONS_CELEBRITY, topics.MENTIONS_STANDARD):
        stage.pump(stream, heads=Unreadable(stage.state.heads)).step()
    letters = stage.state.dead_letters.list(9)
    assert [letter.cause.split(":")[0] for letter in letters] == ["Poison"]
    assert b"nova" in letters[0].body
    assert (stage.bursts(NOVA), len(stage.bursts(LYRA))) == ([], 1)
    assert stage.state.log.uncommitted() == 0


@dataclass(frozen=True)
class Miscounted:
    """A ledger in which one finished slice has more or fewer people than its snapshot."""

    ledger: Ledger
    difference: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        return {key: self._miscounted(progress) for key, progress in self.ledger.read(bursts).items()}

    def _miscounted(self, progress: BurstProgress) -> BurstProgress:
        """Change the people of one finished slice of the followers' burst."""
        for slice_, status in progress.slice_states.items():
            if slice_.burst.subject == NOVA and status.final_entry and status.final_entry.people:
                ended = replace(status.final_entry, people=status.final_entry.people + self.difference)
                return replace(
                    progress, slice_states={**progress.slice_states, slice_: replace(status, final_entry=ended)}
                )
        return progress


@pytest.mark.parametrize(("difference", "unbalanced"), [(0, 0), (1, 1), (-1, 1)])
def test_unbalanced_settled_burst_is_counted_once(difference: int, unbalanced: int) -> None:
    stage = Stage()
    stage.mention("nova")
    reconciler = build_reconciler(stage.system(ledger=Miscounted(stage.state.ledger, difference)))
    reconciler()
    stage.deliver()
    reconciler()
    reconciler()
    assert reconciler.metrics.registry.get_sample_value("notifier_bursts_unbalanced_total") == unbalanced


def test_burst_with_expired_snapshots_is_not_counted_as_unbalanced() -> None:
    stage = Stage()
    stage.mention("nova")
    reconciler = build_reconciler(stage.system())
    reconciler()
    stage.deliver()
    stage.state.clock.advance(SNAPSHOT_KEPT_FOR)
    stage.state.inbox.delete_expired(stage.state.clock.now(), 1_000_000)
    reconciler()
    assert reconciler.metrics.registry.get_sample_value("notifier_bursts_unbalanced_total") == 0


def test_number_of_held_mentions_is_updated_once_a_minute() -> None:
    stage = Stage()
    stage.reach("bob", Verdict.HOLD)
    reconciler = build_reconciler(stage.system())

    def gauge() -> float | None:
        reconciler()
        return reconciler.metrics.registry.get_sample_value("notifier_held_mentions")

    assert gauge() == 0
    stage.mention("nova", "lyra", author="bob")
    stage.mention("nova", author="bob")
    assert gauge() == 0
    stage.pass_time(minutes=1)
    assert gauge() == 2
