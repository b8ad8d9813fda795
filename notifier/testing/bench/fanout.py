"""`notifier bench fanout`: how fast a burst reaches its audience, every figure against its limit or its baseline."""

import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

from notifier.testing.bench import delivery, lanes, large, planning
from notifier.testing.bench.rounds import Figure


class Part(Protocol):
    def __call__(self, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]: ...


PARTS: Mapping[str, tuple[Part, tuple[str, ...]]] = {
    "planning": (planning.run, ("plan_200m_s", "plan_200m_rss_mb")),
    "delivery": (
        delivery.run,
        (
            "fanout_ratio_prefilled{block}",
            "fanout_ratio_prefilled{member}",
            "fanout_ratio_with_seal{block}",
            "fanout_ratio_with_seal{member}",
            "seal_shard_ms",
        ),
    ),
    "lanes": (lanes.run, ("p0_p95_s", "accept_p99_ms", "router_p99_ms", "storm_fanouts", "mentions_per_s")),
    "large": (
        large.run,
        (
            "burst_200m_p1_s",
            "burst_200m_p2_s",
            "p0_200m_p95_s",
            "worker_rss_mb",
            "p0_isolation",
            "lost_slice_reissued_s{p0}",
            "lost_slice_reissued_s{p1}",
        ),
    ),
}
"""Each part with the figures that it brings; planning first, while the process is small and its growth shows."""


def names() -> list[str]:
    """What may be asked for: a figure, its name without the braces, or a part."""
    figures = [figure for _, brings in PARTS.values() for figure in brings]
    return [*PARTS, *dict.fromkeys([*figures, *(figure.partition("{")[0] for figure in figures)])]


def run(*, quick: bool, only: Collection[str], tell: Callable[[str], None]) -> list[Figure]:
    """In a folder of its own, which is thrown away."""
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="notifier-bench-", ignore_cleanup_errors=True) as folder:
        for part, (measure, brings) in PARTS.items():
            wanted = {part, *brings, *(name.partition("{")[0] for name in brings)}
            if not only or wanted & set(only):
                found += measure(Path(folder), quick=quick, tell=tell)
    return [figure for figure in found if _wanted(figure, only)]


def _wanted(figure: Figure, only: Collection[str]) -> bool:
    name = figure.finding.name
    parts = {part for part, (_, brings) in PARTS.items() if name in brings}
    return not only or bool({name, name.partition("{")[0], *parts} & set(only))
