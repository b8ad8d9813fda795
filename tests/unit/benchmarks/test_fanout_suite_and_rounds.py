"""Benchmark figures are judged by their rounds, and failed parts affect no others."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.audience import suite as audience
from benchmarks.costs_and_figures import Cost, Figure, Spread, median_at_most, ratio, worst_at_most
from benchmarks.fanout.burst_memory import growth, most
from benchmarks.fanout.planning import shard_counts
from benchmarks.fanout.suite import PARTS, Part, names, run
from benchmarks.push import promises, transport
from notifier.devkit.check.finding_and_quantiles import at_most
from tests.repo.repository_files import ROOT


def costs(*seconds: float) -> list[Cost]:
    return [Cost(seconds=s, processor=s / 2) for s in seconds]


def test_one_slow_burst_of_three_fails_the_figure() -> None:
    figure = worst_at_most("burst_200m_p1_s", [3.0, 9.0, 4.0], 8.0)
    assert (figure.finding.ok, figure.finding.value, figure.finding.n) == (False, 9.0, 3)
    assert figure.ours == Spread(min=3.0, median=4.0, max=9.0, n=3)


def test_figure_of_means_is_judged_by_its_median() -> None:
    figure = median_at_most("snapshot_shard_ms", [0.5, 2.5, 0.6], 2.0, unit="ms")
    assert (figure.finding.ok, figure.finding.value) == (True, 0.6)


def test_ratio_is_the_median_of_ratios_per_round() -> None:
    """The ratio of the two medians would be 1.0 here."""
    figure = ratio("fanout_ratio_prefilled{5%}", costs(1.0, 2.0, 4.0), costs(2.0, 1.0, 2.0), 0.8, rows=10)
    assert (figure.finding.value, figure.finding.ok) == (0.5, False)
    assert figure.ours == Spread(min=1.0, median=2.0, max=4.0, n=3)
    assert figure.baseline == Spread(min=1.0, median=2.0, max=2.0, n=3)


def test_ratio_without_a_promise_has_no_limit() -> None:
    figure = ratio("fanout_ratio_with_snapshot{5%}", costs(9.0), costs(1.0), None, rows=10)
    assert (figure.finding.ok, figure.finding.limit) == (True, None)


def test_memory_is_judged_by_the_role_that_grew_most() -> None:
    peaks = {1: {"p0": 60.0, "push": 61.0}, 10: {"p0": 99.0, "push": 62.0}, 200: {"p0": 70.0, "push": 106.0}}
    figure = growth(peaks)
    assert (figure.finding.value, figure.finding.ok, figure.finding.n) == (45.0, False, 2)
    assert figure.finding.detail == "maximum, push: 61 with 1, 62 with 10, 106 with 200 followers"
    assert most(peaks).finding.value == 106.0


def test_missing_memory_readings_fail() -> None:
    nothing: dict[int, dict[str, float]] = {1: {}, 200: {}}
    assert not growth(nothing).finding.ok
    assert not most(nothing).finding.ok


@pytest.mark.parametrize("followers", [1, 1_000_000, 200_000_000])
def test_shards_of_planned_celebrity_hold_all_followers(followers: int) -> None:
    assert sum(shard_counts(followers)) == followers


def test_figures_are_unique_and_can_be_selected() -> None:
    for parts in (PARTS, audience.PARTS, audience.OF_CLUSTER, transport.PARTS, promises.PARTS):
        figures = [figure for _, brings in parts.values() for figure in brings]
        assert len(figures) == len(set(figures))
        assert {*figures, *parts} <= set(names(parts))


def test_document_describes_every_figure() -> None:
    document = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    documented = [figure for parts in (PARTS, audience.PARTS) for _, brings in parts.values() for figure in brings]
    assert [figure for figure in documented if f"`{figure.partition('{')[0]}`" not in document.replace("{", "`{")] == []


def good(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    tell("measuring")
    return [Figure(finding=at_most("fine", 1.0, 2.0, unit="s"))]


def raises(error: Exception) -> Part:
    def part(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
        (folder / "left").write_text("behind")
        raise error

    return part


def test_failed_part_fails_its_figures_and_next_part_runs() -> None:
    parts = {"bad": (raises(TimeoutError("no burst\nafter 9 s.")), ("one", "two{x}")), "good": (good, ("fine",))}
    lines: list[str] = []
    findings = [figure.finding for figure in run(quick=True, only=(), tell=lines.append, parts=parts)]
    assert [(finding.name, finding.ok) for finding in findings] == [("one", False), ("two{x}", False), ("fine", True)]
    assert findings[0].detail == "part bad failed with TimeoutError: no burst after 9 s."
    assert lines == [findings[0].detail, "2/2 good: measuring"]


def test_failed_part_reports_selected_figures_only() -> None:
    parts = {"bad": (raises(AssertionError()), ("one", "two{x}")), "good": (good, ("fine",))}
    findings = [figure.finding for figure in run(quick=True, only=("two",), tell=lambda _: None, parts=parts)]
    assert [(finding.name, finding.detail) for finding in findings] == [
        ("two{x}", "part bad failed with AssertionError: no message")
    ]


def test_interrupted_benchmark_leaves_no_folder() -> None:
    folders: list[Path] = []

    def part(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
        folders.append(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(quick=True, only=(), tell=lambda _: None, parts={"bad": (part, ("one",))})
    assert [folder for folder in folders if folder.parent.exists()] == []
    assert folders
