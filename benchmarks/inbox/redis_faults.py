"""Measures warm opens while Redis is empty, full of garbage, or down."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.costs_and_figures import Figure
from benchmarks.inbox.cases import BARE_PAGE, WARM, Case
from benchmarks.inbox.figures import LoadSlice, ratio, right_answers
from benchmarks.inbox.latency_by_request_rate import in_ms, opened
from benchmarks.inbox.measured_system import InboxStage
from benchmarks.inbox.shared_stage_and_case_rounds import SLICE_QUICK_S, SLICE_S, SharedInboxStage
from notifier.devkit.check.finding_and_quantiles import at_most

ROUNDS, ROUNDS_QUICK = 3, 2
WAYS = ("empty", "garbled", "gone")
RATE = 200.0
"""Opens per second of the open loop without Redis."""
OPEN_S, OPEN_QUICK_S = 10.0, 4.0
P95_MS = 100.0


def names(profile: str) -> tuple[str, ...]:
    return (
        *(f"inbox_redis_{way}_ratio{{{profile}}}" for way in WAYS),
        f"inbox_redis_gone_p95_ms{{{profile}}}",
        f"inbox_right_answers{{{profile},redis}}",
    )


def run(shared: SharedInboxStage, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    stage, profile = shared.warm_stage(tell), shared.profile
    slices: dict[str, list[LoadSlice]] = {name: [] for name in (BARE_PAGE.name, *WAYS, "timed")}
    for number in range(ROUNDS_QUICK if quick else ROUNDS):
        tell(f"round {number + 1}: Redis empty, full of garbage, down")
        _round(stage, slices, number, quick=quick)
    if not stage.indexed():
        tell("the index of bursts is still incomplete")
    bare, timed = slices[BARE_PAGE.name], in_ms(slices["timed"], "p95")
    cases = [Case(name=name, requests=WARM.requests) for name in slices]
    detail = f"at {RATE:g} opens/s; worst of {timed.n} rounds"
    opens = sum(slice_.reading.opens for slice_ in slices["timed"])
    gone_finding = at_most(
        f"inbox_redis_gone_p95_ms{{{profile}}}", timed.max, P95_MS, unit="ms", n=opens, detail=detail
    )
    return [
        *(ratio(f"inbox_redis_{way}_ratio{{{profile}}}", slices[way], bare, None) for way in WAYS),
        Figure(finding=gone_finding, ours=timed),
        right_answers(f"inbox_right_answers{{{profile},redis}}", cases, slices),
    ]


def _round(stage: InboxStage, slices: dict[str, list[LoadSlice]], number: int, *, quick: bool) -> None:
    seconds = SLICE_QUICK_S if quick else SLICE_S
    slices[BARE_PAGE.name].append(stage.measure(BARE_PAGE, seconds=seconds))
    stage.cache.flush()
    slices["empty"].append(stage.measure(WARM, seconds=seconds))
    with stage.cache.garbled(number):
        slices["garbled"].append(stage.measure(WARM, seconds=seconds))
    with stage.cache.stopped():
        slices["gone"].append(stage.measure(WARM, seconds=seconds))
        lasting = OPEN_QUICK_S if quick else OPEN_S
        slices["timed"].append(opened(stage, WARM, RATE, lasting, number))
