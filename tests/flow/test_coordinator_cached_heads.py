"""A coordinator reuses the heads that it published, and detects outdated ones."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from notifier import topics
from notifier.domain.bursts.sequencer import Head
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Subject, UserId
from notifier.flow.sequencing.mention_coordinator import MAX_CACHED_HEADS, Coordinator
from notifier.ports.bursts import Heads
from notifier.ports.event_log_and_dead_letters import Logged
from notifier.wiring.sequencing import build_coordinator, build_publisher
from tests.flow.port_with_callback import RunsAfterCall
from tests.support.failing_and_corrupt_ports import FailingHeads, FailingPlans
from tests.support.in_memory_system import NOVA, Stage


@dataclass(slots=True)
class Counted:
    heads: Heads
    loaded: list[Subject] = field(default_factory=list)

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        self.loaded += subjects
        return self.heads.load(subjects)

    def compare_and_set(self, heads: Sequence[Head]) -> Sequence[bool]:
        return self.heads.compare_and_set(heads)

    def unpublished(self, limit: int) -> Sequence[Subject]:
        return self.heads.unpublished(limit)


def mentioned(stage: Stage, *names: str) -> Sequence[Logged]:
    """Mention accounts a second later and return the router's records for the celebrity coordinator."""
    stage.pass_time(seconds=1)
    stage.tweet(*names)
    router = stage.pump(topics.MENTIONS)
    assert router.step() == 1
    router.consumer.close()
    consumer = stage.state.log.subscribe(topics.MENTIONS_CELEBRITY, "test", "test")
    records = consumer.poll(100, timedelta(0))
    consumer.commit({logged.partition: logged.offset for logged in records})
    consumer.close()
    return records


def coordinators(stage: Stage) -> tuple[Counted, Coordinator, Coordinator]:
    """Return the recorded reads of the first of two coordinators, and both."""
    counted = Counted(stage.state.heads)
    return counted, build_coordinator(stage.system(heads=counted)), build_coordinator(stage.system())


def mention_count(stage: Stage) -> int:
    """Count the mentions in all of nova's bursts."""
    return sum(burst.count for key, burst in stage.state.bursts.by_key.items() if key.subject == NOVA)


def test_coordinator_does_not_reload_its_own_heads() -> None:
    stage = Stage()
    counted, coordinator, _ = coordinators(stage)
    for _ in range(3):
        coordinator(mentioned(stage, "nova"))
    assert counted.loaded == [NOVA]
    assert mention_count(stage) == 3


def test_head_changed_by_another_coordinator_is_reloaded() -> None:
    stage = Stage()
    counted, coordinator, rival = coordinators(stage)
    coordinator(mentioned(stage, "nova"))
    rival(mentioned(stage, "nova"))
    coordinator(mentioned(stage, "nova"))
    assert counted.loaded == [NOVA, NOVA]
    assert mention_count(stage) == 3
    assert stage.state.heads.unpublished(9) == []


def test_stalled_publisher_keeps_the_planned_opening_time() -> None:
    """The stalled publisher read an unpublished head. It continues when the burst is late and its rows are written."""
    stage = Stage()
    with pytest.raises(StoreUnavailable):
        build_coordinator(stage.system(ledger=FailingPlans(stage.state.ledger)))(mentioned(stage, "nova"))
    [decided] = stage.state.bursts.by_key.values()

    def meanwhile() -> None:
        with pytest.raises(StoreUnavailable):
            build_publisher(stage.system(heads=FailingHeads(stage.state.heads))).finish_publishing([NOVA])
        stage.pass_time(hours=1)

    stalling = RunsAfterCall(stage.state.clock, "now", meanwhile)
    build_publisher(stage.system(clock=stalling)).finish_publishing([NOVA])
    [burst] = stage.state.bursts.by_key.values()
    assert burst.opened_at == decided.opened_at == stage.state.ledger.read([burst.key])[burst.key].plan.opened_at
    assert stage.state.heads.unpublished(9) == []


def test_unpublished_head_of_another_coordinator_is_published_first() -> None:
    stage = Stage()
    _, coordinator, _ = coordinators(stage)
    crashing = build_coordinator(stage.system(ledger=FailingPlans(stage.state.ledger)))
    coordinator(mentioned(stage, "nova"))
    stage.pass_time(hours=10)
    with pytest.raises(StoreUnavailable):
        crashing(mentioned(stage, "nova"))
    assert stage.state.heads.unpublished(9) == [NOVA]
    coordinator(mentioned(stage, "nova"))
    assert (len(stage.bursts()), mention_count(stage)) == (2, 3)
    assert set(stage.state.ledger.read(stage.bursts())) == set(stage.bursts())


def test_repeated_record_changes_nothing_with_a_cached_head() -> None:
    stage = Stage()
    _, coordinator, rival = coordinators(stage)
    first, second = mentioned(stage, "nova"), mentioned(stage, "nova")
    coordinator(first)
    rival([*first, *second])
    coordinator([*first, *second])
    coordinator(second)
    assert mention_count(stage) == 2


def test_head_is_reloaded_after_a_failed_publication() -> None:
    stage = Stage()
    counted, coordinator, _ = coordinators(stage)
    coordinator(mentioned(stage, "nova"))
    stage.pass_time(hours=10)
    records = mentioned(stage, "nova")
    with pytest.raises(StoreUnavailable):
        replace(coordinator, publisher=replace(coordinator.publisher, ledger=FailingPlans(stage.state.ledger)))(records)
    coordinator(records)
    assert counted.loaded == [NOVA, NOVA]
    assert (len(stage.bursts()), mention_count(stage)) == (2, 2)
    assert stage.state.heads.unpublished(9) == []


def test_number_of_cached_heads_is_bounded() -> None:
    stage = Stage()
    _, coordinator, _ = coordinators(stage)
    coordinator.cached_heads.update(
        {
            star: Head.empty(star)
            for star in (Subject(NOVA.kind, UserId(f"star{n}")) for n in range(MAX_CACHED_HEADS + 1))
        }
    )
    coordinator(mentioned(stage, "nova"))
    assert set(coordinator.cached_heads) == {NOVA}
