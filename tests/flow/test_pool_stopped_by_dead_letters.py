"""A pool stopped by the dead-letter limit keeps its slices; other pools continue."""

from typing import Any

from notifier.config.limits import DeadLetterSettings
from notifier.domain.delivery.ledger import MAX_ATTEMPTS, Fact
from notifier.domain.delivery.slice_and_pool import Dead, Done, Pool, Retry, Slice
from notifier.domain.errors import StoreUnavailable
from notifier.flow.delivery.slice_worker import SliceWorker
from notifier.wiring.delivery import build_dispatcher, build_slice_worker
from tests.support.failing_and_corrupt_ports import BrokenWrites, FailingPort
from tests.support.in_memory_system import LYRA, NOVA, Stage

STOPPED = Retry(reason="the pool is stopped by its dead-letter limit")


def stage_with_two_bursts(in_a_row: int = 1) -> Stage:
    stage = Stage(settings={"dead_letters": DeadLetterSettings(in_a_row=in_a_row)})
    stage.mention("nova")
    stage.mention("lyra")
    return stage


def broken(stage: Stage, **ports: Any) -> SliceWorker:
    return build_slice_worker(stage.system(inbox=BrokenWrites(stage.state.inbox), **ports))


def p1_slices(stage: Stage) -> list[Slice]:
    bursts = stage.state.store_scan.burst_progress()
    return sorted(
        (slice_ for progress in bursts for slice_ in progress.slice_states if slice_.pool is Pool.P1),
        key=str,
    )


def fail(stage: Stage, slice_: Slice, work: SliceWorker) -> list[object]:
    """Run all attempts of a slice, each after the previous claim expired."""
    outcomes: list[object] = []
    for _ in range(MAX_ATTEMPTS):
        outcomes.append(work(slice_))
        stage.pass_time(seconds=31)
    return outcomes


def facts(stage: Stage, pool: Pool) -> set[Fact | None]:
    bursts = stage.state.store_scan.burst_progress()
    statuses = [state for progress in bursts for state in progress.slice_states.values() if state.slice.pool is pool]
    return {state.final_entry.fact if state.final_entry else None for state in statuses}


def stopped_at_p1() -> tuple[Stage, list[Slice]]:
    """The first slice of P1 became a dead letter; the second one exceeded the limit."""
    stage = stage_with_two_bursts()
    slices = p1_slices(stage)
    work = broken(stage)
    assert fail(stage, slices[0], work)[-1] == Dead(cause="ValueError: malformed row")
    assert fail(stage, slices[1], work)[-1] == STOPPED
    return stage, slices


def test_slice_beyond_the_limit_is_no_dead_letter() -> None:
    stage, slices = stopped_at_p1()
    assert [letter.id for letter in stage.state.dead_letters.list(9)] == [str(slices[0])]
    stop = stage.state.lane_tallies.read(["p1"])["p1"].stop
    assert stop is not None
    assert (stop.record, stop.cause) == (str(slices[1]), "ValueError: malformed row")


def test_worker_of_a_stopped_pool_claims_nothing() -> None:
    stage, slices = stopped_at_p1()
    stage.pass_time(seconds=60)
    claims = FailingPort(stage.state.claims, StoreUnavailable)
    assert build_slice_worker(stage.system(claims=claims))(slices[1]) == STOPPED


def test_dispatcher_skips_a_stopped_pool_and_serves_the_others() -> None:
    stage, _ = stopped_at_p1()
    for _ in range(40):
        stage.dispatch()
        assert not stage.state.queue.waiting[Pool.P1]
        stage.work()
        stage.pass_time(seconds=1)
    assert facts(stage, Pool.P0) == facts(stage, Pool.P2) == {Fact.DONE}
    assert None in facts(stage, Pool.P1)


def test_gauge_of_a_stopped_pool_is_set_by_the_dispatcher() -> None:
    stage, _ = stopped_at_p1()
    system = stage.system()
    build_dispatcher(system)()
    values = {pool: system.metrics.registry.get_sample_value("notifier_lane_stopped", {"lane": pool}) for pool in Pool}
    assert values == {pool: float(pool is Pool.P1) for pool in Pool}


def test_resumed_pool_delivers_waiting_slices() -> None:
    stage, slices = stopped_at_p1()
    stage.state.lane_tallies.resume("p1", "ada", "fixed", stage.state.clock.now())
    stage.deliver(rounds=200)
    assert facts(stage, Pool.P1) == {Fact.DONE, Fact.DEAD}
    assert len(stage.state.dead_letters.list(9)) == 1
    second_subject = LYRA if slices[0].burst.subject == NOVA else NOVA
    assert stage.reached(second_subject)


def test_finished_slice_resets_the_dead_letter_count() -> None:
    stage = stage_with_two_bursts(in_a_row=1)
    slices = p1_slices(stage)
    work = build_slice_worker(stage.system())
    work.guards.guard_for("p1").admit_dead_letter("an older slice", "ValueError")
    assert isinstance(work(slices[0]), Done)
    assert work.guards.guard_for("p1").admit_dead_letter(str(slices[1]), "ValueError")


def test_crash_between_count_and_letter_of_a_slice_counts_once() -> None:
    stage = stage_with_two_bursts(in_a_row=1)
    [first, second, *_] = p1_slices(stage)
    letters = FailingPort(stage.state.dead_letters, StoreUnavailable)
    work = broken(stage, dead_letters=letters)
    for _ in range(MAX_ATTEMPTS - 1):
        work(first)
        stage.pass_time(seconds=31)
    for _ in range(3):
        try:
            work(first)
        except StoreUnavailable:
            stage.pass_time(seconds=31)
    assert fail(stage, first, broken(stage))[0] == Dead(cause="ValueError: malformed row")
    assert stage.state.lane_tallies.read(["p1"])["p1"].in_a_row == 1
    assert fail(stage, second, broken(stage))[-1] == STOPPED
