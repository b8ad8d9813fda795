"""The fan-out benchmark considers the system idle only after every stage has finished."""

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.fanout.measured_notifier import is_at_rest
from notifier import topics
from notifier.domain.errors import StoreUnavailable
from tests.support.failing_and_corrupt_ports import FailingPlans, FailingPort
from tests.support.in_memory_system import Stage


def step(stage: Stage, stream: str, **ports: Any) -> None:
    reading = stage.pump(stream, **ports)
    try:
        reading.step()
    finally:
        reading.consumer.close()


def test_bench_rests_once_a_mention_has_passed_every_stage() -> None:
    stage = Stage()
    at_rest = [is_at_rest(stage.ports)]
    stage.tweet("nova")
    at_rest.append(is_at_rest(stage.ports))
    step(stage, topics.MENTIONS)
    at_rest.append(is_at_rest(stage.ports))
    stage.sequence()
    at_rest.append(is_at_rest(stage.ports))
    stage.deliver()
    at_rest.append(is_at_rest(stage.ports))
    assert at_rest == [True, False, False, False, True]


def test_bench_does_not_rest_while_a_readable_burst_has_no_plan() -> None:
    stage = Stage()
    stage.tweet("nova")
    step(stage, topics.MENTIONS)
    with pytest.raises(StoreUnavailable):
        step(stage, topics.MENTIONS_CELEBRITY, ledger=FailingPlans(stage.state.ledger))
    assert stage.bursts() != []
    assert list(stage.state.ledger.unfinished_bursts()) == []
    assert not is_at_rest(stage.ports)


def test_bench_does_not_rest_while_the_store_is_unavailable() -> None:
    stage = Stage()
    ledger: Any = FailingPort(stage.state.ledger, StoreUnavailable)
    assert not is_at_rest(replace(stage.ports, ledger=ledger))
