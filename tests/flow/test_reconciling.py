"""The reconciler's round: whoever missed an announcement, the index gets it; what fails fails alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from notifier import topics
from notifier.domain.audience.snapshot import KEPT_FOR
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.bursts.sequencer import Head
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.errors import CacheUnavailable, Poison, StoreUnavailable
from notifier.domain.ids import BurstKey, Subject
from notifier.flow.delivery.reconciler import LOG_KEPT_FOR, Reconciler
from notifier.ports.bursts import Heads, RecentBursts
from notifier.ports.inbox import InboxPosition
from notifier.ports.ledger import Ledger
from notifier.ports.pull_index import FRESH_FOR
from notifier.wiring.delivery import build_reconciler
from notifier.wiring.sequencing import build_publisher
from tests.support.failing_ports import Refusing
from tests.support.in_memory_system import LYRA, NOVA, Stage


@dataclass(frozen=True)
class Unreadable:
    """The head of one subject makes no sense; the others are as they are."""

    heads: Heads
    bad: Subject = NOVA

    def __getattr__(self, name: str) -> Any:
        return getattr(self.heads, name)

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        if self.bad in subjects:
            raise Poison(f"The head of {self.bad}.")
        return self.heads.load(subjects)


@dataclass
class Forgetful:
    """A log that is asked to forget, and nothing else."""

    forgotten: list[datetime] = field(default_factory=list)

    def forget(self, before: datetime) -> int:
        self.forgotten.append(before)
        return 0


@dataclass
class Paged:
    """Two bursts a page, whatever was asked for."""

    recent: RecentBursts
    pages: int = 0

    def since(self, moment: datetime, behind: InboxPosition | None, limit: int) -> Sequence[Burst]:
        self.pages += 1
        return self.recent.since(moment, behind, min(limit, 2))


def failed(reconciler: Reconciler, duty: str) -> float:
    return reconciler.metrics.registry.get_sample_value("notifier_unreconciled_total", {"duty": duty}) or 0.0


def unpublished(stage: Stage, *names: str) -> None:
    """Their coordinator could not say its last word."""
    stage.tweet(*names)
    stage.pump(topics.MENTIONS).step()
    for stream in (topics.MENTIONS_CELEBRITY, topics.MENTIONS_STANDARD):
        with pytest.raises(StoreUnavailable):
            stage.pump(stream, sets=Refusing(stage.ground.sets, StoreUnavailable)).step()


def test_what_redis_refused_is_announced_by_whoever_compares_next() -> None:
    stage = Stage()
    reconciler = build_reconciler(stage.system())
    reconciler()
    pump = stage.pump(topics.MENTIONS_CELEBRITY, pull=Refusing(stage.ground.pull, CacheUnavailable))
    stage.tweet("nova")
    stage.pump(topics.MENTIONS).step()
    pump.step()
    stage.ground.clock.advance(FRESH_FOR + timedelta(milliseconds=1))
    assert stage.sees("kim") == ["mention:nova#1"]
    reconciler()
    assert NOVA in stage.ground.pull.lists
    assert stage.sees("kim") == ["mention:nova#1"]


def test_an_index_is_rebuilt_page_by_page() -> None:
    stage = Stage(collapse=timedelta(0))
    for _ in range(5):
        stage.mention("lyra")
        stage.pass_time(seconds=1)
    stage.ground.wipe()
    paged = Paged(stage.ground.bursts)
    build_reconciler(stage.system(recent_bursts=paged))()
    assert paged.pages > 5
    assert len(stage.ground.pull.lists[LYRA].opened) == 5


def test_a_head_that_cannot_be_read_keeps_no_other_unfinished() -> None:
    stage = Stage()
    unpublished(stage, "nova", "lyra")
    assert set(stage.ground.heads.unpublished(9)) >= {NOVA, LYRA}
    reconciler = build_reconciler(stage.system(heads=Unreadable(stage.ground.heads)))
    reconciler.publisher = build_publisher(stage.system(heads=Unreadable(stage.ground.heads)))
    reconciler()
    assert list(stage.ground.heads.unpublished(9)) == [NOVA]
    assert failed(reconciler, "heads") == 1


def test_a_duty_that_fails_leaves_the_others_to_be_done() -> None:
    stage = Stage()
    stage.mention("nova")
    log = Forgetful()
    broken = {name: Refusing(getattr(stage.ground, name), Poison) for name in ("inbox", "ledger", "pull")}
    reconciler = build_reconciler(stage.system(**broken, log=log))
    reconciler()
    assert [failed(reconciler, duty) for duty in ("index", "sums", "sweep", "log")] == [1, 1, 1, 0]
    assert log.forgotten == [stage.ground.clock.now() - LOG_KEPT_FOR]


def test_an_outage_ends_the_round() -> None:
    stage = Stage()
    with pytest.raises(StoreUnavailable):
        build_reconciler(stage.system(heads=Refusing(stage.ground.heads, StoreUnavailable)))()


def test_a_record_of_an_unreadable_head_is_a_dead_letter_and_the_batch_goes_on() -> None:
    stage = Stage()
    stage.tweet("nova")
    stage.tweet("lyra")
    stage.pump(topics.MENTIONS).step()
    for stream in (topics.MENTIONS_CELEBRITY, topics.MENTIONS_STANDARD):
        stage.pump(stream, heads=Unreadable(stage.ground.heads)).step()
    letters = stage.ground.dead_letters.list(9)
    assert [letter.cause.split(":")[0] for letter in letters] == ["Poison"]
    assert b"nova" in letters[0].body
    assert (stage.bursts(NOVA), len(stage.bursts(LYRA))) == ([], 1)
    assert stage.ground.log.uncommitted() == 0


@dataclass(frozen=True)
class Miscounted:
    """A ledger whose ended slices tell of more people, or fewer, than their seals."""

    ledger: Ledger
    by: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        return {key: self._miscounted(account) for key, account in self.ledger.read(bursts).items()}

    def _miscounted(self, account: BurstProgress) -> BurstProgress:
        """One of the slices of the followers' burst that reached somebody."""
        for piece, standing in account.standings.items():
            if piece.burst.subject == NOVA and standing.ended and standing.ended.people:
                ended = replace(standing.ended, people=standing.ended.people + self.by)
                return replace(account, standings={**account.standings, piece: replace(standing, ended=ended)})
        return account


@pytest.mark.parametrize(("by", "unbalanced"), [(0, 0), (1, 1), (-1, 1)])
def test_a_settled_burst_whose_books_do_not_balance_is_counted_once(by: int, unbalanced: int) -> None:
    stage = Stage()
    stage.mention("nova")
    reconciler = build_reconciler(stage.system(ledger=Miscounted(stage.ground.ledger, by)))
    reconciler()
    stage.deliver()
    reconciler()
    reconciler()
    assert reconciler.metrics.registry.get_sample_value("notifier_books_unbalanced_total") == unbalanced


def test_books_whose_seals_have_expired_count_as_nothing() -> None:
    stage = Stage()
    stage.mention("nova")
    reconciler = build_reconciler(stage.system())
    reconciler()
    stage.deliver()
    stage.ground.clock.advance(KEPT_FOR)
    stage.ground.inbox.sweep(stage.ground.clock.now(), 1_000_000)
    reconciler()
    assert reconciler.metrics.registry.get_sample_value("notifier_books_unbalanced_total") == 0


def test_how_many_mentions_are_held_is_told_once_a_minute() -> None:
    stage = Stage()
    stage.reach("bob", Verdict.HOLD)
    reconciler = build_reconciler(stage.system())

    def told() -> float | None:
        reconciler()
        return reconciler.metrics.registry.get_sample_value("notifier_held")

    assert told() == 0
    stage.mention("nova", "lyra", author="bob")
    stage.mention("nova", author="bob")
    assert told() == 0
    stage.pass_time(minutes=1)
    assert told() == 2
