"""Demo page benchmark: observations are judged by promises, and impossible ones fail."""

from dataclasses import replace

import pytest

from benchmarks import live_latency
from benchmarks.demo_page import PARTS, axe_figure, ready_figures, storm_figure, weight_figures
from benchmarks.fanout.large_burst_speed_and_recovery import FOLLOWERS
from tests.repo.repository_files import ROOT
from tests.support.browser.page_states import STAR_DELIVERED
from tests.support.browser.storm_watcher import BURST, TOOK, StormTimes

SEEN = StormTimes(burst="mention:nova#2", followers=FOLLOWERS, people=9_000_000, reported_s=6.3, shown_s=7.9)


def test_slowest_storm_is_judged_by_time_shown_on_page() -> None:
    figure = storm_figure([SEEN, replace(SEEN, reported_s=8.1, shown_s=9.4)])
    assert (figure.finding.ok, figure.finding.value, figure.finding.limit) == (False, 8.1, 8.0)
    assert "at most 9.4 s from the press" in figure.finding.detail
    assert storm_figure([SEEN]).finding.ok


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (replace(SEEN, followers=20_000_000), "The page shows 20,000,000 followers."),
        (replace(SEEN, people=0), "The page shows an empty P1."),
        (replace(SEEN, shown_s=6.1), "The page showed 6.3 s after only 6.1 s."),
    ],
    ids=["another world", "empty P1", "time in the future"],
)
def test_impossible_observation_fails(seen: StormTimes, message: str) -> None:
    finding = storm_figure([SEEN, seen]).finding
    assert (finding.ok, finding.detail.endswith(message)) == (False, True)


def test_time_rounded_to_a_tenth_is_accepted() -> None:
    assert storm_figure([replace(SEEN, reported_s=6.3, shown_s=6.25)]).finding.ok


def test_slowest_start_of_each_kind_is_judged() -> None:
    fresh, again = (figure.finding for figure in ready_figures([3.0, 10.1], [5.9, 4.0], []))
    assert (fresh.name, fresh.ok, fresh.value) == ("demo_ready_s{fresh}", False, 10.1)
    assert (again.name, again.ok, again.value) == ("demo_ready_s{again}", True, 5.9)


def test_start_that_lost_data_fails() -> None:
    fresh, again = (figure.finding for figure in ready_figures([3.0], [2.0], ["the inbox lost mention:nova#1"]))
    assert (fresh.ok, again.ok, again.value) == (True, False, 2.0)
    assert again.detail.endswith("the inbox lost mention:nova#1")


def test_page_weight_is_reported_with_and_without_inbox() -> None:
    inbox = {"/static/notifier-inbox.js": 1_000, "/static/notifier-inbox/row.js": 40_000, "/v1/inbox": 9_000}
    system = {"/": 4_000, "/static/demo/main.js": 40_000, "/demo/people": 6_500}
    whole, part = (figure.finding for figure in weight_figures({**inbox, **system}))
    assert (whole.name, whole.ok, whole.value, whole.unit) == ("page_kb", False, 100.5, "kB")
    assert (part.name, part.ok, part.value, part.n) == ("page_kb{system}", False, 50.5, 3)
    assert part.detail == "without the inbox: 44,000 bytes in 2 files, 6,500 in API responses"


def test_axe_violation_is_reported_with_state_and_element() -> None:
    finding = axe_figure({"demo, dark, 390, delivered": ["color-contrast at ['#sum']"], "demo, loading": []}).finding
    assert (finding.ok, finding.value, finding.n) == (False, 1, 2)
    assert finding.detail == "demo, dark, 390, delivered: color-contrast at ['#sum']"
    assert axe_figure({"demo, loading": []}).finding.ok


def test_unchecked_page_fails() -> None:
    assert not axe_figure({}).finding.ok


def test_page_texts_are_parsed_completely() -> None:
    took = TOOK.fullmatch("9,321,402 users, within 1,203 s of the tweet")
    assert took
    assert took.groups() == ("9,321,402", "1,203")
    assert not TOOK.fullmatch("9,321,402 users, so far")
    burst = BURST.match("Burst mention:nova#12: one notification for each of 200,000,000 followers")
    assert burst
    assert burst[1] == "mention:nova#12"


def test_only_burst_of_star_counts_as_delivered() -> None:
    line = "Burst mention:{}#1: one notification for each of 9 followers, in 1 shards. {}"
    assert STAR_DELIVERED.search(line.format("nova", "Delivered; dormant followers see it by the pull path."))
    assert not STAR_DELIVERED.search(line.format("nova", "In delivery."))
    assert not STAR_DELIVERED.search(line.format("u3", "Delivered; dormant followers see it by the pull path."))


def test_document_describes_every_figure() -> None:
    document = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    names = [figure for parts in (PARTS, live_latency.PARTS) for _, brings in parts.values() for figure in brings]
    assert [figure for figure in names if f"`{figure}`" not in document] == []
