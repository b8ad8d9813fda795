"""A coordinator doesn't read again what it published itself, and is never misled by what it remembers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from notifier import topics
from notifier.domain.bursts.sequencer import Head
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Subject, UserId
from notifier.flow.sequencing.coordinator import OWN, Coordinator
from notifier.ports.bursts import Heads
from notifier.ports.event_log import Logged
from notifier.wiring.sequencing import build_coordinator, build_publisher
from tests.flow.stalling import Stalling
from tests.support.failing_ports import Unplanned, Unswapped
from tests.support.in_memory_system import NOVA, Stage


@dataclass(slots=True)
class Counted:
    heads: Heads
    loaded: list[Subject] = field(default_factory=list)

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        self.loaded += subjects
        return self.heads.load(subjects)

    def swap(self, heads: Sequence[Head]) -> Sequence[bool]:
        return self.heads.swap(heads)

    def unpublished(self, limit: int) -> Sequence[Subject]:
        return self.heads.unpublished(limit)


def mentioned(stage: Stage, *names: str) -> Sequence[Logged]:
    """A second later, as the router has written it for the coordinator of celebrities."""
    stage.pass_time(seconds=1)
    stage.tweet(*names)
    router = stage.pump(topics.MENTIONS)
    assert router.step() == 1
    router.consumer.close()
    consumer = stage.ground.log.subscribe(topics.MENTIONS_CELEBRITY, "test", "test")
    found = consumer.poll(100, timedelta(0))
    consumer.commit({one.partition: one.offset for one in found})
    consumer.close()
    return found


def coordinators(stage: Stage) -> tuple[Counted, Coordinator, Coordinator]:
    """Of two processes, and what the first reads."""
    counted = Counted(stage.ground.heads)
    return counted, build_coordinator(stage.system(heads=counted)), build_coordinator(stage.system())


def counted_in(stage: Stage) -> int:
    """Mentions, in all of the celebrity's bursts."""
    return sum(burst.count for key, burst in stage.ground.bursts.by_key.items() if key.subject == NOVA)


def test_what_it_published_it_does_not_read_again() -> None:
    stage = Stage()
    counted, one, _ = coordinators(stage)
    for _ in range(3):
        one(mentioned(stage, "nova"))
    assert counted.loaded == [NOVA]
    assert counted_in(stage) == 3


def test_what_another_changed_meanwhile_is_read_and_decided_anew() -> None:
    stage = Stage()
    counted, one, other = coordinators(stage)
    one(mentioned(stage, "nova"))
    other(mentioned(stage, "nova"))
    one(mentioned(stage, "nova"))
    assert counted.loaded == [NOVA, NOVA]
    assert counted_in(stage) == 3
    assert stage.ground.heads.unpublished(9) == []


def test_what_another_planned_while_one_halted_keeps_its_moment() -> None:
    """The one has found the head not published, and looks again when the burst is late and its rows are written."""
    stage = Stage()
    with pytest.raises(StoreUnavailable):
        build_coordinator(stage.system(ledger=Unplanned(stage.ground.ledger)))(mentioned(stage, "nova"))
    [decided] = stage.ground.bursts.by_key.values()

    def meanwhile() -> None:
        with pytest.raises(StoreUnavailable):
            build_publisher(stage.system(heads=Unswapped(stage.ground.heads))).finish([NOVA])
        stage.pass_time(hours=1)

    halting = Stalling(stage.ground.clock, "now", meanwhile)
    build_publisher(stage.system(clock=halting)).finish([NOVA])
    [burst] = stage.ground.bursts.by_key.values()
    assert burst.opened_at == decided.opened_at == stage.ground.ledger.read([burst.key])[burst.key].plan.opened_at
    assert stage.ground.heads.unpublished(9) == []


def test_what_another_decided_and_could_not_publish_is_published_first() -> None:
    stage = Stage()
    _, one, _ = coordinators(stage)
    dying = build_coordinator(stage.system(ledger=Unplanned(stage.ground.ledger)))
    one(mentioned(stage, "nova"))
    stage.pass_time(hours=10)
    with pytest.raises(StoreUnavailable):
        dying(mentioned(stage, "nova"))
    assert stage.ground.heads.unpublished(9) == [NOVA]
    one(mentioned(stage, "nova"))
    assert (len(stage.bursts()), counted_in(stage)) == (2, 3)
    assert set(stage.ground.ledger.read(stage.bursts())) == set(stage.bursts())


def test_a_record_that_comes_twice_changes_nothing_even_where_the_head_is_remembered() -> None:
    stage = Stage()
    _, one, other = coordinators(stage)
    first, second = mentioned(stage, "nova"), mentioned(stage, "nova")
    one(first)
    other([*first, *second])
    one([*first, *second])
    one(second)
    assert counted_in(stage) == 2


def test_what_could_not_be_published_is_read_again() -> None:
    stage = Stage()
    counted, one, _ = coordinators(stage)
    one(mentioned(stage, "nova"))
    stage.pass_time(hours=10)
    records = mentioned(stage, "nova")
    with pytest.raises(StoreUnavailable):
        replace(one, publisher=replace(one.publisher, ledger=Unplanned(stage.ground.ledger)))(records)
    one(records)
    assert counted.loaded == [NOVA, NOVA]
    assert (len(stage.bursts()), counted_in(stage)) == (2, 2)
    assert stage.ground.heads.unpublished(9) == []


def test_no_more_heads_are_remembered_than_a_storm_has() -> None:
    stage = Stage()
    _, one, _ = coordinators(stage)
    one.own.update(
        {star: Head.fresh(star) for star in (Subject(NOVA.kind, UserId(f"star{n}")) for n in range(OWN + 1))}
    )
    one(mentioned(stage, "nova"))
    assert set(one.own) == {NOVA}
