"""Processor and loop: commits come last, bad records die singly, errors never end the loop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event as Signal

import pytest

from notifier.consumer_loop import MAX_ATTEMPTS, STOPPED_LANE_CHECK_SECONDS, Loop, StreamProcessor
from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit
from notifier.domain.errors import DiskFull, LaneStopped, LogUnavailable, Poison, SchemaOlder, StoreUnavailable
from notifier.flow.dead_letter_lane_stops import LaneGuard
from notifier.metrics import Metrics
from notifier.ports.event_log_and_dead_letters import DeadLetter, Logged, Record
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.dead_letters import MemoryDeadLetterTallies

P0, P1 = "mentions/0", "mentions/1"


def logged(offset: int, partition: str = P0) -> Logged:
    return Logged(partition=partition, offset=offset, record=Record(stream="mentions", key="k", value=b"%d" % offset))


@dataclass
class Batches:
    """Consumer that returns these batches and records what was committed."""

    batches: list[list[Logged]]
    lost: bool = False
    committed: list[Mapping[str, int]] = field(default_factory=list)

    def poll(self, limit: int, wait: timedelta) -> Sequence[Logged]:
        return self.batches.pop(0) if self.batches else []

    def commit(self, positions: Mapping[str, int]) -> None:
        self.committed.append(positions)

    def still_owns_polled_records(self) -> bool:
        return not self.lost

    def lag(self) -> int:
        return sum(map(len, self.batches))

    def close(self) -> None:
        self.batches.clear()


@dataclass
class Letters:
    letters: list[DeadLetter] = field(default_factory=list)

    def put(self, letter: DeadLetter) -> None:
        self.letters.append(letter)

    def list(self, limit: int) -> Sequence[DeadLetter]:
        return self.letters[:limit]


@dataclass
class Stage:
    """Records every call, and fails while a record has a failure left."""

    failures: dict[int, list[Exception]] = field(default_factory=dict)
    calls: list[list[int]] = field(default_factory=list)
    done: list[int] = field(default_factory=list)

    def __call__(self, records: Sequence[Logged]) -> None:
        offsets = [record.offset for record in records]
        self.calls.append(offsets)
        for offset in offsets:
            if self.failures.get(offset):
                raise self.failures[offset].pop(0)
        self.done += offsets


def router_of(
    stage: Callable[[Sequence[Logged]], None], *batches: list[Logged], limit: DeadLetterLimit | None = None
) -> tuple[StreamProcessor, Batches, Letters]:
    consumer, letters, clock, metrics = Batches(list(batches)), Letters(), ManualClock(), Metrics()
    guard = LaneGuard(
        lane="mentions",
        limit=limit or DeadLetterLimit(),
        tallies=MemoryDeadLetterTallies(),
        clock=clock,
        metrics=metrics,
        owner="pump-1",
    )
    router = StreamProcessor(
        name="router",
        consumer=consumer,
        stage=stage,
        dead_letters=letters,
        guard=guard,
        clock=clock,
        metrics=metrics,
    )
    return router, consumer, letters


def test_empty_log_is_no_work_and_no_commit() -> None:
    router, consumer, _ = router_of(Stage())
    assert (router.step(), consumer.committed) == (0, [])


def test_newest_offset_per_partition_is_committed_after_the_stage() -> None:
    batch = [logged(3), logged(4), logged(9, P1)]
    consumer = Batches([batch])
    commits_before: list[int] = []
    router, _, _ = router_of(lambda records: commits_before.append(len(consumer.committed)))
    router.consumer = consumer
    assert router.step() == 3
    assert (commits_before, consumer.committed) == ([0], [{P0: 4, P1: 9}])


@pytest.mark.parametrize("outage", [StoreUnavailable(), LogUnavailable(), DiskFull(), SchemaOlder()])
def test_outage_keeps_the_batch_and_commits_nothing(outage: Exception) -> None:
    stage = Stage(failures={1: [outage]})
    router, consumer, letters = router_of(stage, [logged(1), logged(2)], [logged(3)])
    with pytest.raises(type(outage)):
        router.step()
    assert (consumer.committed, letters.letters) == ([], [])
    assert [router.step(), router.step()] == [2, 1]
    assert stage.calls == [[1, 2], [1, 2], [3]]
    assert consumer.committed == [{P0: 2}, {P0: 3}]


def test_partitions_lost_during_an_outage_are_dropped() -> None:
    stage = Stage(failures={1: [StoreUnavailable()]})
    router, consumer, _ = router_of(stage, [logged(1), logged(2)], [logged(3)])
    with pytest.raises(StoreUnavailable):
        router.step()
    consumer.lost = True
    assert router.step() == 1
    assert (stage.calls, consumer.committed) == ([[1, 2], [3]], [{P0: 3}])


def test_outage_between_single_records_keeps_the_batch() -> None:
    stage = Stage(failures={1: [ValueError()], 2: [StoreUnavailable()]})
    router, consumer, _ = router_of(stage, [logged(1), logged(2)])
    with pytest.raises(StoreUnavailable):
        router.step()
    assert router.step() == 2
    assert (stage.calls, consumer.committed) == ([[1, 2], [1], [2], [1, 2]], [{P0: 2}])


def test_poison_record_becomes_dead_letter_and_others_go_on() -> None:
    stage = Stage(failures={2: [Poison("x")] * 9})
    router, consumer, letters = router_of(stage, [logged(1), logged(2), logged(3)])
    assert router.step() == 3
    assert (stage.done, stage.calls[1:]) == ([1, 3], [[1], [2], [3]])
    assert [(letter.id, letter.stage, letter.body) for letter in letters.letters] == [("mentions/0/2", "router", b"2")]
    assert "Poison" in letters.letters[0].cause
    assert consumer.committed == [{P0: 3}]


def test_failing_record_is_tried_three_times() -> None:
    stage = Stage(failures={1: [ValueError("no")] * 9})
    router, _, letters = router_of(stage, [logged(1)])
    assert router.step() == 1
    assert stage.calls == [[1]] * MAX_ATTEMPTS
    assert letters.letters[0].cause == "ValueError: no"


def test_record_that_succeeds_at_the_last_try_is_no_dead_letter() -> None:
    stage = Stage(failures={1: [ValueError()] * (MAX_ATTEMPTS - 1)})
    router, consumer, letters = router_of(stage, [logged(1)])
    assert (router.step(), stage.done, letters.letters, consumer.committed) == (1, [1], [], [{P0: 1}])


TWO_IN_A_ROW = DeadLetterLimit(in_a_row=2)


def test_lane_stops_before_it_exceeds_the_dead_letter_limit() -> None:
    stage = Stage(failures={n: [Poison("x")] * 9 for n in (2, 3, 4)})
    router, consumer, letters = router_of(stage, [logged(n) for n in range(1, 7)], limit=TWO_IN_A_ROW)
    with pytest.raises(LaneStopped, match="Lane: mentions"):
        router.step()
    assert [letter.id for letter in letters.letters] == ["mentions/0/2", "mentions/0/3"]
    assert (stage.done, consumer.committed) == ([1], [{P0: 3}])


def test_stopped_lane_handles_and_commits_nothing() -> None:
    stage = Stage(failures={n: [Poison("x")] * 9 for n in (1, 2, 3)})
    router, consumer, letters = router_of(stage, [logged(n) for n in (1, 2, 3)], [logged(4)], limit=TWO_IN_A_ROW)
    for _ in range(5):
        with pytest.raises(LaneStopped):
            router.step()
    assert (len(letters.letters), stage.done, consumer.committed) == (2, [], [{P0: 2}])
    assert stage.calls == [[1, 2, 3], [1], [2], [3]]


def test_record_that_stopped_the_lane_is_tried_first_after_a_resume() -> None:
    stage = Stage(failures={1: [Poison("x")] * 9, 2: [Poison("x")] * 9, 3: [Poison("x")]})
    router, consumer, letters = router_of(stage, [logged(n) for n in (1, 2, 3)], [logged(4)], limit=TWO_IN_A_ROW)
    with pytest.raises(LaneStopped):
        router.step()
    router.guard.tallies.resume("mentions", "ada", "fixed", router.clock.now())
    assert isinstance(router.clock, ManualClock)
    router.clock.advance(timedelta(seconds=1))
    assert [router.step(), router.step()] == [1, 1]
    assert stage.calls[4:] == [[3], [4]]
    assert (stage.done, len(letters.letters), consumer.committed) == ([3, 4], 2, [{P0: 2}, {P0: 3}, {P0: 4}])


def test_stop_at_the_first_record_of_a_batch_commits_nothing() -> None:
    stage = Stage(failures={n: [Poison("x")] * 9 for n in (1, 2, 3)})
    router, consumer, _ = router_of(stage, [logged(1)], [logged(2)], [logged(3)], limit=TWO_IN_A_ROW)
    assert [router.step(), router.step()] == [1, 1]
    with pytest.raises(LaneStopped):
        router.step()
    assert consumer.committed == [{P0: 1}, {P0: 2}]


def test_success_between_deaths_keeps_the_lane_running() -> None:
    stage = Stage(failures={n: [Poison("x")] * 9 for n in (1, 2, 4, 5)})
    router, _, letters = router_of(stage, [logged(n) for n in range(1, 7)], limit=TWO_IN_A_ROW)
    assert router.step() == 6
    assert (stage.done, len(letters.letters)) == ([3, 6], 4)


def test_batch_repeated_by_an_outage_counts_its_deaths_once() -> None:
    stage = Stage(failures={1: [Poison("x")] * 99, 2: [Poison("x")] * 99, 3: [ValueError(), *[StoreUnavailable()] * 3]})
    router, _, letters = router_of(stage, [logged(n) for n in (1, 2, 3)], limit=TWO_IN_A_ROW)
    for _ in range(3):
        stage.failures[3].insert(0, ValueError())
        with pytest.raises(StoreUnavailable):
            router.step()
    stage.failures[3].clear()
    assert router.step() == 3
    assert {letter.id for letter in letters.letters} == {"mentions/0/1", "mentions/0/2"}


def test_stopped_lane_without_records_does_nothing() -> None:
    stage = Stage(failures={n: [Poison("x")] * 9 for n in (1, 2, 3)})
    router, consumer, _ = router_of(stage, [logged(n) for n in (1, 2, 3)], limit=TWO_IN_A_ROW)
    with pytest.raises(LaneStopped):
        router.step()
    consumer.lost = True
    assert router.step() == 0


class Waits(Signal):
    """Stop signal that records each wait and returns at once."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0.0)
        return self.is_set()


def waits(*steps: object) -> list[float]:
    """Return how long a loop waits after each of these results or exceptions."""
    stopping, remaining = Waits(), list(steps)

    def step() -> object:
        result = remaining.pop(0)
        if not remaining:
            stopping.set()
        if isinstance(result, Exception):
            raise result
        return result

    Loop(name="router", step=step, idle=timedelta(seconds=9), stop_signal=stopping, metrics=Metrics()).run()
    return stopping.waited


def test_loop_waits_only_when_there_is_no_work() -> None:
    assert waits(3, 1, 0) == [0.0, 0.0, 9.0]


def test_outage_backs_off_exponentially_until_success() -> None:
    assert waits(*[StoreUnavailable()] * 7, 1, DiskFull()) == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 0.0, 0.1]


def test_stopped_lane_is_checked_every_second_without_backoff() -> None:
    assert waits(DiskFull(), LaneStopped(), LaneStopped(), DiskFull()) == [
        0.1,
        STOPPED_LANE_CHECK_SECONDS,
        STOPPED_LANE_CHECK_SECONDS,
        0.1,
    ]


def test_errors_do_not_end_the_loop() -> None:
    assert waits(ValueError("a bug"), ZeroDivisionError(), 0) == [0.1, 0.2, 9.0]


def test_loop_stopped_before_its_start_does_nothing() -> None:
    stopping = Waits()
    stopping.set()
    Loop(name="x", step=lambda: 1 / 0, idle=timedelta(), stop_signal=stopping, metrics=Metrics()).run()
    assert stopping.waited == []
