"""From slices to figures: ratios of the same round, processor time and round trips per open, and wrong answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from notifier.testing.bench.inbox.cases import Case
from notifier.testing.bench.inbox.measured import Slice, cpu_ratio, ratios
from notifier.testing.bench.rounds import Figure, Spread, told
from notifier.testing.finding import Finding, agreement, at_least, at_most

RATE, CPU = "opens/s", "us"
CLIENT_BUSY = 0.8
"""Share of a core from which on the load generator itself is in doubt."""

Slices = Mapping[str, Sequence[Slice]]
"""By case, one a round."""


def ratio(name: str, ours: Sequence[Slice], theirs: Sequence[Slice], limit: float | None) -> Figure:
    """Our rate over theirs, the median of the rounds."""
    found = ratios(ours, theirs)
    mine, its = rates(ours), rates(theirs)
    detail = (
        f"{mine.median:,.0f} opens/s against {its.median:,.0f}; {min(found):.3f} to {max(found):.3f} in "
        f"{len(found)} rounds; {cpu_ratio(ours, theirs):.3f} by processor time, {_cpu(ours):,.0f} us an open against "
        f"{_cpu(theirs):,.0f}; {latencies(ours)}; {_body(ours):,.0f} bytes against {_body(theirs):,.0f}"
    )
    finding = at_least(name, median(found), limit or 0.0, unit="ratio", n=len(found), detail=detail)
    return Figure(
        finding=finding if limit is not None else replace(finding, limit=None, ok=True), ours=mine, baseline=its
    )


def ratio_to_peer(name: str, ours: Sequence[Slice], peer: Sequence[Slice], limit: float) -> Figure:
    figure = ratio(name, ours, peer, limit)
    return replace(figure, baseline=None, peers=figure.baseline)


def cpu(name: str, ours: Sequence[Slice], theirs: Sequence[Slice] | None = None) -> Figure:
    """Microseconds of the server's processor time per open."""
    figure = told(name, Spread.of([each.cpu_us for each in ours], CPU), len(ours), latencies(ours))
    return replace(figure, baseline=Spread.of([each.cpu_us for each in theirs], CPU) if theirs else None)


def calls(name: str, slices: Sequence[Slice], counter: str, limit: float | None) -> Figure:
    """Round trips per open; not measured while the product doesn't count them."""
    found = [value for each in slices if (value := each.per_open(counter)) is not None]
    if not found:
        detail = f"There is no {counter} in /metrics."
        return Figure(finding=Finding(name=name, ok=limit is None, value="-", limit=limit, n=0, detail=detail))
    spread, opens = Spread.of(found, "per open"), sum(each.reading.opens for each in slices)
    if limit is None:
        return told(name, spread, opens, counter)
    finding = at_most(name, median(found), limit, unit="per open", n=opens, detail=counter)
    return Figure(finding=finding, ours=spread)


def right_answers(name: str, cases: Sequence[Case], slices: Slices) -> Figure:
    """Every answer has the status that its case expects, and the load generator wasn't the limit."""
    opens = sum(each.reading.opens for found in slices.values() for each in found)
    return Figure(finding=agreement(name, _wrong(cases, slices), n=opens))


def rates(slices: Sequence[Slice]) -> Spread:
    return Spread.of([each.per_s for each in slices], RATE)


def latencies(slices: Sequence[Slice]) -> str:
    """The medians of the rounds' percentiles."""
    found = {name: median(each.reading.latency[name] for each in slices) for name in ("p50", "p99", "p999")}
    return ", ".join(f"{name} {seconds * 1e3:,.1f} ms" for name, seconds in found.items())


def _wrong(cases: Sequence[Case], slices: Slices) -> Iterator[str]:
    for case in cases:
        for each in slices.get(case.name, ()):
            if unexpected := each.reading.unexpected(case.status):
                statuses = dict(each.reading.statuses)
                yield f"{case.name}: {unexpected} of {each.reading.opens}, {statuses}, {each.reading.failed} failed"
            if each.reading.busy > CLIENT_BUSY:
                yield f"{case.name}: the load generator took {each.reading.busy:.0%} of a core"


def _cpu(slices: Sequence[Slice]) -> float:
    return median(each.cpu_us for each in slices)


def _body(slices: Sequence[Slice]) -> float:
    return median(each.reading.body for each in slices)
