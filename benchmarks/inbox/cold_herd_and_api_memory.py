"""Measures many users: 1,000 concurrent opens of a cold burst, and memory of the API."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from benchmarks.costs_and_figures import Figure, Spread, unjudged
from benchmarks.inbox.cases import WARM, Case
from benchmarks.inbox.figures import LOADS, LoadSlice, growth, right_answers
from benchmarks.inbox.latency_by_request_rate import in_ms
from benchmarks.inbox.measured_system import InboxStage
from benchmarks.inbox.shared_stage_and_case_rounds import SharedInboxStage
from benchmarks.process_stats import resident_mb
from notifier.devkit.check.finding_and_quantiles import Finding, at_most

HERD = Case(name="herd", requests="gala")
EVERYBODY = Case(name="everybody", requests="everybody")
CONCURRENT_OPENS = 1_000
MAX_LOADS = 1
HERDS, HERDS_QUICK = 3, 1
OTHER_USERS = 200
"""Users who open before the herd, so that the new process has run its code. They don't follow `gala`."""
HERD_TIMEOUT_SECONDS = 60.0
FILLING_S, FILLING_QUICK_S = 120.0, 20.0
MEMORY_MB = 300.0
GROWTH_MB = 10.0
"""Growth over the last third of the samples: noise of the allocator is allowed, a cache without a limit isn't."""
SAMPLE_INTERVAL_SECONDS = 1.0


def herd_names(profile: str) -> tuple[str, ...]:
    return (
        f"inbox_herd_one_load{{{profile}}}",
        f"inbox_herd_ms{{{profile}}}",
        f"inbox_right_answers{{{profile},herd}}",
    )


def memory_names(profile: str) -> tuple[str, ...]:
    return (
        f"inbox_api_mb{{{profile}}}",
        f"inbox_api_growth_mb{{{profile}}}",
        f"inbox_right_answers{{{profile},memory}}",
    )


def herd(shared: SharedInboxStage, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    stage, herd_slices = shared.stage(tell), list[LoadSlice]()
    for number in range(HERDS_QUICK if quick else HERDS):
        tell(f"herd {number + 1}: {CONCURRENT_OPENS:,} users open concurrently in a new process")
        stage.restart_api()
        stage.load(WARM, connections=16, first=0, count=OTHER_USERS, seconds=HERD_TIMEOUT_SECONDS)
        herd_slices.append(
            stage.measure(HERD, connections=CONCURRENT_OPENS, count=CONCURRENT_OPENS, seconds=HERD_TIMEOUT_SECONDS)
        )
    worst = unjudged(
        f"inbox_herd_ms{{{shared.profile}}}",
        in_ms(herd_slices, "p99"),
        CONCURRENT_OPENS * len(herd_slices),
        "p99 of a herd",
    )
    right = right_answers(f"inbox_right_answers{{{shared.profile},herd}}", [HERD], {HERD.name: herd_slices})
    return [loads(f"inbox_herd_one_load{{{shared.profile}}}", herd_slices), worst, right]


def loads(name: str, herds: list[LoadSlice]) -> Figure:
    """Judge the largest number of loads of a burst that one herd caused."""
    counted = [herd_slice.counters[LOADS] for herd_slice in herds if LOADS in herd_slice.counters]
    if not counted:
        detail = f"/metrics has no {LOADS}"
        return Figure(finding=Finding(name=name, ok=False, value="-", limit=MAX_LOADS, n=0, detail=detail))
    detail = f"maximum of {len(counted)} herds of {CONCURRENT_OPENS:,}; 0 would mean that the burst was never read"
    finding = at_most(name, max(counted), MAX_LOADS, unit="loads", n=len(counted), detail=detail)
    return Figure(finding=finding, ours=Spread.of(counted, "loads"))


def memory(shared: SharedInboxStage, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    stage, profile = shared.warm_stage(tell), shared.profile
    seconds = FILLING_QUICK_S if quick else FILLING_S
    tell(f"{stage.files.count(EVERYBODY.requests):,} users open for {seconds:.0f} s")
    with sampled(stage) as samples:
        measured = stage.measure(EVERYBODY, seconds=seconds)
    users = min(measured.reading.opens, stage.files.count(EVERYBODY.requests))
    detail = f"{users:,} different users, {measured.reading.opens:,} opens"
    spread = Spread.of(samples.mb, "MB")
    flat = f"last third of {len(samples.mb)} samples; {detail}"
    grown = growth(samples.mb)
    return [
        Figure(
            finding=at_most(
                f"inbox_api_mb{{{profile}}}", spread.max, MEMORY_MB, unit="MB", n=len(samples.mb), detail=detail
            ),
            ours=spread,
        ),
        Figure(
            finding=at_most(
                f"inbox_api_growth_mb{{{profile}}}", grown, GROWTH_MB, unit="MB", n=len(samples.mb), detail=flat
            )
        ),
        right_answers(f"inbox_right_answers{{{profile},memory}}", [EVERYBODY], {EVERYBODY.name: [measured]}),
    ]


@dataclass(slots=True)
class Samples:
    mb: list[float] = field(default_factory=list)


@contextmanager
def sampled(stage: InboxStage) -> Iterator[Samples]:
    """Sample the API's resident memory each second during the block."""
    samples, over, pid = Samples(), Event(), stage.api()

    def sample() -> None:
        while not over.is_set():
            samples.mb.append(resident_mb(pid))
            over.wait(SAMPLE_INTERVAL_SECONDS)

    thread = Thread(target=sample, name="memory", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()
