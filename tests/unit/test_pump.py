"""The pump commits last and buries one at a time; its loop outlives everything."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event as Signal

import pytest

from notifier.domain.errors import Full, LogUnavailable, Poison, SchemaOlder, StoreUnavailable
from notifier.ports.deadletters import DeadLetter
from notifier.ports.log import Logged, Record
from notifier.pump import BACKOFF, TRIES, Loop, Pump
from notifier.telemetry import Metrics
from notifier.testing.memory.clock import ManualClock

P0, P1 = "mentions/0", "mentions/1"


def logged(offset: int, partition: str = P0) -> Logged:
    return Logged(partition=partition, offset=offset, record=Record(stream="mentions", key="k", value=b"%d" % offset))


@dataclass
class Batches:
    """A consumer that gives these batches, and remembers what was committed."""

    batches: list[list[Logged]]
    lost: bool = False
    committed: list[Mapping[str, int]] = field(default_factory=list)

    def poll(self, limit: int, wait: timedelta) -> Sequence[Logged]:
        return self.batches.pop(0) if self.batches else []

    def commit(self, positions: Mapping[str, int]) -> None:
        self.committed.append(positions)

    def holds(self) -> bool:
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
    """Notes every call, and fails where a record has a failure left."""

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


def pump(stage: Callable[[Sequence[Logged]], None], *batches: list[Logged]) -> tuple[Pump, Batches, Letters]:
    consumer, letters = Batches(list(batches)), Letters()
    built = Pump(
        name="router", consumer=consumer, stage=stage, dead_letters=letters, clock=ManualClock(), metrics=Metrics()
    )
    return built, consumer, letters


def test_an_empty_log_is_no_work_and_no_commit() -> None:
    built, consumer, _ = pump(Stage())
    assert (built.step(), consumer.committed) == (0, [])


def test_the_newest_offset_of_each_partition_is_committed_after_the_stage() -> None:
    batch = [logged(3), logged(4), logged(9, P1)]
    consumer = Batches([batch])
    before: list[int] = []
    built, _, _ = pump(lambda records: before.append(len(consumer.committed)))
    built.consumer = consumer
    assert built.step() == 3
    assert (before, consumer.committed) == ([0], [{P0: 4, P1: 9}])


@pytest.mark.parametrize("outage", [StoreUnavailable(), LogUnavailable(), Full(), SchemaOlder()])
def test_an_outage_holds_the_same_batch_and_commits_nothing(outage: Exception) -> None:
    stage = Stage(failures={1: [outage]})
    built, consumer, letters = pump(stage, [logged(1), logged(2)], [logged(3)])
    with pytest.raises(type(outage)):
        built.step()
    assert (consumer.committed, letters.letters) == ([], [])
    assert [built.step(), built.step()] == [2, 1]
    assert stage.calls == [[1, 2], [1, 2], [3]]
    assert consumer.committed == [{P0: 2}, {P0: 3}]


def test_what_somebody_else_took_over_during_an_outage_is_left_to_him() -> None:
    stage = Stage(failures={1: [StoreUnavailable()]})
    built, consumer, _ = pump(stage, [logged(1), logged(2)], [logged(3)])
    with pytest.raises(StoreUnavailable):
        built.step()
    consumer.lost = True
    assert built.step() == 1
    assert (stage.calls, consumer.committed) == ([[1, 2], [3]], [{P0: 3}])


def test_an_outage_between_the_single_records_holds_the_batch_too() -> None:
    stage = Stage(failures={1: [ValueError()], 2: [StoreUnavailable()]})
    built, consumer, _ = pump(stage, [logged(1), logged(2)])
    with pytest.raises(StoreUnavailable):
        built.step()
    assert built.step() == 2
    assert (stage.calls, consumer.committed) == ([[1, 2], [1], [2], [1, 2]], [{P0: 2}])


def test_a_poisoned_record_is_buried_at_once_and_holds_up_nobody() -> None:
    stage = Stage(failures={2: [Poison("x")] * 9})
    built, consumer, letters = pump(stage, [logged(1), logged(2), logged(3)])
    assert built.step() == 3
    assert (stage.done, stage.calls[1:]) == ([1, 3], [[1], [2], [3]])
    assert [(letter.id, letter.stage, letter.body) for letter in letters.letters] == [("mentions/0/2", "router", b"2")]
    assert "Poison" in letters.letters[0].cause
    assert consumer.committed == [{P0: 3}]


def test_a_record_that_fails_for_another_reason_is_tried_three_times() -> None:
    stage = Stage(failures={1: [ValueError("no")] * 9})
    built, _, letters = pump(stage, [logged(1)])
    assert built.step() == 1
    assert stage.calls == [[1]] * TRIES
    assert letters.letters[0].cause == "ValueError: no"


def test_a_record_that_succeeds_at_the_last_try_is_no_dead_letter() -> None:
    stage = Stage(failures={1: [ValueError()] * (TRIES - 1)})
    built, consumer, letters = pump(stage, [logged(1)])
    assert (built.step(), stage.done, letters.letters, consumer.committed) == (1, [1], [], [{P0: 1}])


class Waits(Signal):
    """Stops the loop when the steps are over; nobody really waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0.0)
        return self.is_set()


def waits(*steps: object) -> list[float]:
    """How long a loop waits after each of these: a result, or an exception."""
    stopping, left = Waits(), list(steps)

    def step() -> object:
        result = left.pop(0)
        if not left:
            stopping.set()
        if isinstance(result, Exception):
            raise result
        return result

    Loop(name="router", step=step, idle=timedelta(seconds=9), stopping=stopping, metrics=Metrics()).run()
    return stopping.waited


def test_a_loop_goes_on_at_once_while_there_is_work_and_then_idles() -> None:
    assert waits(3, 1, 0) == [0.0, 0.0, 9.0]


def test_an_outage_slows_a_loop_more_and_more_and_success_forgets_it() -> None:
    assert waits(*[StoreUnavailable()] * 6, 1, Full()) == [*BACKOFF, BACKOFF[-1], 0.0, BACKOFF[0]]


def test_nothing_ends_a_loop_but_the_signal() -> None:
    assert waits(ValueError("a bug"), ZeroDivisionError(), 0) == [*BACKOFF[:2], 9.0]


def test_a_loop_that_is_told_to_stop_before_it_began_does_nothing() -> None:
    stopping = Waits()
    stopping.set()
    Loop(name="x", step=lambda: 1 / 0, idle=timedelta(), stopping=stopping, metrics=Metrics()).run()
    assert stopping.waited == []
