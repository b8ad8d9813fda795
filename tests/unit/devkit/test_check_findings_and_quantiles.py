"""Findings of a check: limits, empty samples and quantiles."""

import pytest

from notifier.devkit.check.finding_and_quantiles import at_least, at_most, no_errors, quantile, weighted_quantile


def test_one_exception_fails_an_agreement_with_its_detail() -> None:
    finding = no_errors("nothing_lost", ["e1 is lost"], n=10)
    assert (finding.ok, finding.value, finding.detail) == (False, 1, "e1 is lost")


def test_check_of_an_empty_sample_fails() -> None:
    assert not no_errors("nothing_lost", [], n=0).ok
    assert not at_most("p0_p95_s", 0.0, 1.0, unit="s", n=0).ok
    assert not at_least("mentions_per_s", 900.0, 500.0, unit="1/s", n=0).ok


@pytest.mark.parametrize(("value", "ok"), [(0.99, True), (1.0, True), (1.01, False)])
def test_value_may_equal_the_limit(value: float, ok: bool) -> None:
    assert at_most("p0_p95_s", value, 1.0, unit="s").ok is ok


def test_quantile_of_an_empty_sample_is_infinite() -> None:
    assert quantile([], 0.5) == float("inf")
    assert weighted_quantile([], 0.5) == float("inf")
    assert weighted_quantile([(1.0, 0)], 0.5) == float("inf")


def test_infinite_value_is_reported_as_none() -> None:
    finding = at_most("p0_p95_s", quantile([], 0.5), 1.0, unit="s")
    assert (finding.ok, finding.value) == (False, None)


def test_weighted_quantile_counts_rows_and_not_slices() -> None:
    few_slow_rows = [(0.1, 960), (9.0, 40)]
    many_slow_rows = [(0.1, 900), (9.0, 100)]
    assert weighted_quantile(few_slow_rows, 0.95) == 0.1
    assert weighted_quantile(many_slow_rows, 0.95) == 9.0


def test_quantile_leaves_at_most_its_share_above() -> None:
    assert quantile(list(range(100)), 0.99) == 99
    assert quantile(list(range(1000)), 0.95) == 950
