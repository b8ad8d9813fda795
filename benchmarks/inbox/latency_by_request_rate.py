"""Measures warm opens at shares of the maximum rate, in an open loop."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.costs_and_figures import Figure, Spread, unjudged
from benchmarks.inbox.cases import BARE_PAGE, WARM, Case
from benchmarks.inbox.figures import LoadSlice, right_answers
from benchmarks.inbox.measured_system import InboxStage
from benchmarks.inbox.shared_stage_and_case_rounds import SharedInboxStage
from notifier.devkit.check.finding_and_quantiles import at_most

SHARES = (10, 25, 50, 75, 90)
"""Percentages of the maximum."""
JUDGED_SHARE = 50
ROUNDS, ROUNDS_QUICK = 3, 2
"""Rounds at the judged share. The others are measured once."""
LOAD_SECONDS, LOAD_SECONDS_QUICK = 8.0, 4.0
MAXIMUM_ROUNDS, MAXIMUM_S = 3, 2.0
CONNECTIONS = 64
P99_MS = {"embedded": 15.0, "cluster": 25.0}
PERCENTILES = ("p50", "p99", "p999")
MS = 1e3


def names(profile: str) -> tuple[str, ...]:
    return (
        f"inbox_p99_ms{{{profile}}}",
        *(_name(profile, share, percentile) for share in SHARES for percentile in PERCENTILES),
        f"inbox_right_answers{{{profile},latency}}",
    )


def _name(profile: str, share: int, percentile: str) -> str:
    return f"inbox_latency_ms{{{profile},{share}%,{percentile}}}"


def run(shared: SharedInboxStage, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    stage, profile = shared.warm_stage(tell), shared.profile
    most, bare_most = maximum(stage, WARM), maximum(stage, BARE_PAGE)
    tell(f"maximum {most:,.0f} opens/s, bare handler {bare_most:,.0f}")
    rounds, seconds = (ROUNDS_QUICK, LOAD_SECONDS_QUICK) if quick else (ROUNDS, LOAD_SECONDS)
    by_share: dict[int, list[LoadSlice]] = {}
    bare: list[LoadSlice] = []
    for share in [JUDGED_SHARE] if quick else SHARES:
        tell(f"{share} % of the maximum: {most * share / 100:,.0f} opens/s")
        by_share[share] = []
        for number in range(rounds if share == JUDGED_SHARE else 1):
            by_share[share].append(opened(stage, WARM, most * share / 100, seconds, number))
            if share == JUDGED_SHARE:
                bare.append(opened(stage, BARE_PAGE, bare_most * share / 100, seconds, number))
    all_slices = {WARM.name: [slice_ for slices in by_share.values() for slice_ in slices], BARE_PAGE.name: bare}
    return [
        judged(profile, by_share[JUDGED_SHARE], bare, most),
        *(
            _at_share(_name(profile, share, percentile), slices, percentile, most * share / 100)
            for share, slices in by_share.items()
            for percentile in PERCENTILES
        ),
        right_answers(f"inbox_right_answers{{{profile},latency}}", [WARM, BARE_PAGE], all_slices),
    ]


def maximum(stage: InboxStage, case: Case) -> float:
    """Return the median rate of a few closed loops."""
    return median(stage.measure(case, seconds=MAXIMUM_S).per_s for _ in range(MAXIMUM_ROUNDS))


def opened(stage: InboxStage, case: Case, rate: float, seconds: float, seed: int) -> LoadSlice:
    return stage.measure(case, connections=CONNECTIONS, rate=rate, seconds=seconds, seed=seed)


def judged(profile: str, slices: Sequence[LoadSlice], bare: Sequence[LoadSlice], most: float) -> Figure:
    """Judge the median of the rounds' p99 at half of the maximum."""
    mine, its = in_ms(slices, "p99"), in_ms(bare, "p99")
    detail = (
        f"at {most * JUDGED_SHARE / 100:,.0f} opens/s; bare handler at half of its own maximum: {its.median:,.1f} ms"
    )
    n = sum(slice_.reading.opens for slice_ in slices)
    finding = at_most(f"inbox_p99_ms{{{profile}}}", mine.median, P99_MS[profile], unit="ms", n=n, detail=detail)
    return Figure(finding=finding, ours=mine, baseline=its)


def _at_share(name: str, slices: Sequence[LoadSlice], percentile: str, rate: float) -> Figure:
    spread, n = in_ms(slices, percentile), sum(slice_.reading.opens for slice_ in slices)
    return unjudged(name, spread, n, f"at {rate:,.0f} opens/s")


def in_ms(slices: Sequence[LoadSlice], percentile: str) -> Spread:
    """Return the rounds' values of a percentile in milliseconds."""
    return Spread.of([slice_.reading.latency[percentile] * MS for slice_ in slices], "ms")
