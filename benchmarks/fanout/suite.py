"""`python -m benchmarks fanout`: speed of a burst, each figure against a limit or baseline."""

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

from benchmarks.costs_and_figures import Figure
from benchmarks.fanout import burst_memory, planning, pull_index_rebuild, row_and_snapshot_writes
from benchmarks.fanout import intake_and_sequencing as lanes
from benchmarks.fanout import large_burst_speed_and_recovery as large
from benchmarks.fanout.density_worlds import shown
from notifier.devkit.check.finding_and_quantiles import Finding


class Part(Protocol):
    def __call__(self, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]: ...


Parts = Mapping[str, tuple[Part, tuple[str, ...]]]

PARTS: Parts = {
    "planning": (planning.run, ("plan_200m_s", "plan_200m_rss_mb", "plan_rss_independent_mb")),
    "delivery": (
        row_and_snapshot_writes.run,
        (
            *(
                f"fanout_ratio_{state}{{{shown(density)}}}"
                for density in row_and_snapshot_writes.DENSITIES
                for state in ("prefilled", "with_snapshot")
            ),
            "snapshot_shard_ms",
        ),
    ),
    "lanes": (lanes.run, ("p0_p95_s", "accept_p99_ms", "router_p99_ms", "storm_fanouts", "mentions_per_s")),
    "index": (pull_index_rebuild.run, ("redis_rebuild_s",)),
    "memory": (burst_memory.run, ("worker_rss_mb", "worker_rss_independent_mb")),
    "large": (
        large.run,
        (
            "burst_200m_p1_s",
            "burst_200m_p2_s",
            "p0_200m_p95_s",
            "p0_isolation",
            "lost_slice_reissued_s{p0}",
            "lost_slice_reissued_s{p1}",
        ),
    ),
}
"""Each part with its figures. Planning comes first, while the process is small and its growth is visible."""


def names(parts: Parts = PARTS) -> list[str]:
    """Return all names that `--only` accepts: figures and parts, with or without their braces."""
    figures = [figure for _, brings in parts.values() for figure in brings]
    return [*dict.fromkeys([*map(_bare, parts), *parts, *figures, *map(_bare, figures)])]


def run(*, quick: bool, only: Collection[str], tell: Callable[[str], None], parts: Parts = PARTS) -> list[Figure]:
    """Run the parts in a temporary folder. A part that can't be measured fails all of its figures."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="notifier-bench-", ignore_cleanup_errors=True) as folder:
        for part, (_, brings) in parts.items():
            wanted = {part, _bare(part), *brings, *map(_bare, brings)}
            if not only or wanted & set(only):
                figures += _measured(parts, part, Path(folder) / part, quick=quick, tell=tell)
    return [figure for figure in figures if _wanted(figure, only, parts)]


def _measured(parts: Parts, part: str, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    measure, brings = parts[part]
    folder.mkdir()
    os.sync()  # otherwise writes of an earlier part would be in this part's times
    place = f"{[*parts].index(part) + 1}/{len(parts)} {part}"
    try:
        return measure(folder, quick=quick, tell=lambda message: tell(f"{place}: {message}"))
    except Exception as cause:
        # Report the other parts' measurements anyway.
        why = f"part {part} failed with {type(cause).__name__}: {' '.join(str(cause).split()) or 'no message'}"
        tell(why)
        return [Figure(finding=Finding(name=name, ok=False, n=0, detail=why)) for name in brings]
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # the next part may need the space


def _wanted(figure: Figure, only: Collection[str], parts: Parts) -> bool:
    name = figure.finding.name
    of = {part for part, (_, brings) in parts.items() if name in brings}
    return not only or bool({name, _bare(name), *of, *map(_bare, of)} & set(only))


def _bare(name: str) -> str:
    """Return the name without its braces."""
    return name.partition("{")[0]
