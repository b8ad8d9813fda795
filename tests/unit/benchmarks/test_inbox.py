"""Inbox benchmark: latency from the due time, ratios per round, every wrong answer counted."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from benchmarks.costs_and_figures import Spread
from benchmarks.inbox.cases import NOT_MODIFIED, PAGES, WARM
from benchmarks.inbox.changed_pages import merged
from benchmarks.inbox.cold_herd_and_api_memory import HERD, loads
from benchmarks.inbox.figures import (
    REDIS,
    STORE,
    LoadReading,
    LoadSlice,
    calls,
    cpu,
    cpu_ratio,
    growth,
    percentiles,
    ratio,
    ratio_to_peer,
    ratios,
    right_answers,
)
from benchmarks.inbox.http_requests_and_load_loops import due_times, get, read_answers
from benchmarks.inbox.measured_system import parsed
from benchmarks.inbox.opens_during_mentions import MENTIONS_PER_BATCH, batches
from benchmarks.inbox.population import GROUPS, Group, Population, zipf, zipf_picks
from benchmarks.inbox.shared_stage_and_case_rounds import turned

SMALL = Population(
    groups=(Group(name="warm", users=1_500, follows=3), Group(name="crowd", users=1_025, follows=2, shared=True)),
    subjects=10,
)


def load_slice(
    opens: int = 100,
    *,
    seconds: float = 1.0,
    cpu_s: float = 0.1,
    statuses: Mapping[int, int] | None = None,
    failed: int = 0,
    busy: float = 0.1,
    counters: Mapping[str, float] | None = None,
) -> LoadSlice:
    reading = LoadReading(
        opens=opens,
        seconds=seconds,
        latency={"p50": 0.001, "p95": 0.002, "p99": 0.003, "p999": 0.004},
        statuses={200: opens} if statuses is None else statuses,
        body=6_000.0,
        busy=busy,
        failed=failed,
    )
    return LoadSlice(reading=reading, processor_s=cpu_s, counters=counters or {})


def test_percentile_exceeds_its_share_of_latencies() -> None:
    latencies = percentiles([number / 1000 for number in range(1000, 0, -1)])
    assert latencies == {"p50": 0.501, "p95": 0.951, "p99": 0.991, "p999": 1.0}


def test_percentiles_without_requests_are_infinite() -> None:
    assert {*percentiles([]).values()} == {float("inf")}


def test_due_times_have_the_rate_and_repeat_for_a_seed() -> None:
    first, again, other_seed = (list(due_times(1_000.0, 10.0, seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other_seed
    assert 9_500 < len(first) < 10_500
    assert first == sorted(first)
    assert first[-1] < 10.0


def test_due_times_are_generated_lazily() -> None:
    assert len([*islice(due_times(1e6, 1e6, 1), 3)]) == 3


def test_ratio_is_taken_per_round() -> None:
    """The two medians would be equal here."""
    ours, bare = [load_slice(100), load_slice(50), load_slice(25)], [load_slice(50), load_slice(100), load_slice(50)]
    assert ratios(ours, bare) == [2.0, 0.5, 0.5]
    figure = ratio("inbox_warm_ratio{embedded}", ours, bare, 0.6)
    assert (figure.finding.value, figure.finding.ok, figure.finding.n) == (0.5, False, 3)
    assert figure.ours == Spread(min=25.0, median=50.0, max=100.0, unit="opens/s", n=3)
    assert figure.baseline == Spread(min=50.0, median=50.0, max=100.0, unit="opens/s", n=3)


def test_ratio_of_sides_with_different_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="argument 2 is longer"):
        ratios([load_slice()], [load_slice(), load_slice()])


def test_ratio_against_a_server_that_answered_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no response"):
        ratios([load_slice()], [load_slice(0)])


def test_ratio_without_a_limit_is_not_judged() -> None:
    figure = ratio("inbox_news_ratio{embedded}", [load_slice(1)], [load_slice(100)], None)
    assert (figure.finding.ok, figure.finding.limit) == (True, None)


def test_ratio_to_peer_reports_the_peer_rate() -> None:
    figure = ratio_to_peer("inbox_vs_redis_by_hand_ratio{embedded}", [load_slice(200)], [load_slice(100)], 1.0)
    assert (figure.finding.ok, figure.baseline) == (True, None)
    assert figure.peers == Spread(min=100.0, median=100.0, max=100.0, unit="opens/s", n=1)


def test_processor_time_is_counted_per_answer() -> None:
    ours, bare = [load_slice(100, cpu_s=0.1)], [load_slice(1_000, cpu_s=0.1)]
    assert cpu("inbox_cpu_us{embedded,warm}", ours, bare).ours == Spread(
        min=1_000.0, median=1_000.0, max=1_000.0, unit="us", n=1
    )
    assert cpu_ratio(ours, bare) == pytest.approx(0.1)


def test_uncounted_round_trips_are_reported_as_missing() -> None:
    judged, unjudged = (
        calls("inbox_store_calls{embedded,warm}", [load_slice()], STORE, limit) for limit in (0.01, None)
    )
    assert (judged.finding.ok, judged.finding.value, judged.finding.n) == (False, "-", 0)
    assert (unjudged.finding.ok, unjudged.finding.value) == (True, "-")


def test_round_trips_are_counted_per_answer() -> None:
    slices = [
        load_slice(1_000, counters={STORE: 5.0, REDIS: 300.0}),
        load_slice(1_000, counters={STORE: 7.0, REDIS: 100.0}),
    ]
    store, cache = (calls("x", slices, counter, limit) for counter, limit in ((STORE, 0.01), (REDIS, 0.1)))
    assert (store.finding.value, store.finding.ok, store.finding.n) == (0.006, True, 2_000)
    assert (cache.finding.value, cache.finding.ok) == (0.2, False)


def test_counters_are_summed_over_labels_and_unrelated_ones_ignored() -> None:
    text = """\
# HELP notifier_inbox_store_calls_total Round trips.
# TYPE notifier_inbox_store_calls_total counter
notifier_inbox_store_calls_total 12.0
notifier_inbox_redis_calls_total{of="pull"} 3.0
notifier_inbox_redis_calls_total{of="viewer"} 4.0
notifier_inbox_store_calls_created 1.7e9
notifier_events_total{status="accepted"} 9.0
"""
    assert parsed(text) == {STORE: 12.0, REDIS: 7.0}


def test_every_unexpected_answer_is_reported() -> None:
    slices = {
        WARM.name: [load_slice(), load_slice(100, statuses={200: 98, 503: 2}, failed=1)],
        NOT_MODIFIED.name: [load_slice(100, statuses={304: 100}, busy=0.9)],
    }
    finding = right_answers("inbox_right_answers{embedded,pages}", [WARM, NOT_MODIFIED], slices).finding
    assert (finding.ok, finding.value, finding.n) == (False, 2, 300)
    assert finding.detail == (
        "warm: 3 of 100, {200: 98, 503: 2}, 1 failed; not_modified: the load generator took 90% of a core"
    )


def test_case_without_answers_fails() -> None:
    assert not right_answers("inbox_right_answers{embedded,pages}", [WARM], {WARM.name: []}).finding.ok


@pytest.mark.parametrize(("counted", "ok"), [([1.0, 1.0], True), ([1.0, 2.0], False)])
def test_herd_may_cause_one_load(counted: list[float], ok: bool) -> None:
    herds = [load_slice(counters={"notifier_inbox_burst_loads_total": number}) for number in counted]
    finding = loads("inbox_herd_one_load{embedded}", herds).finding
    assert (finding.ok, finding.value) == (ok, max(counted))


def test_herd_without_a_counter_fails() -> None:
    finding = loads("inbox_herd_one_load{embedded}", [load_slice()]).finding
    assert (finding.ok, finding.value) == (False, "-")


def test_growth_is_measured_over_the_last_third() -> None:
    assert growth([100.0, 200.0, 250.0, 260.0, 261.0, 259.0]) == 2.0
    assert growth([100.0]) == 0.0


def test_passes_of_one_round_are_added_up() -> None:
    passes = [load_slice(100, seconds=1.0, counters={STORE: 1.0}), load_slice(300, seconds=1.0, counters={STORE: 3.0})]
    whole = merged([replace(slice_, processor_s=0.5) for slice_ in passes])
    assert (whole.reading.opens, whole.per_s, whole.processor_s) == (400, 200.0, 1.0)
    assert whole.reading.statuses == {200: 400}
    assert whole.per_open(STORE) == 0.01


def test_cases_take_turns_to_begin_a_round() -> None:
    assert [turned(PAGES, number)[0] for number in range(len(PAGES))] == [*PAGES]
    assert {*turned(PAGES, 3)} == {*PAGES}


def test_second_rank_is_half_as_popular_as_the_first() -> None:
    weights = zipf(3_000)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0] == pytest.approx(2 * weights[1])


def test_every_user_follows_the_requested_number_of_subjects() -> None:
    picks = zipf_picks(np.random.default_rng(1), lines=200, subjects=300, picked=30)
    assert picks.shape == (200, 30)
    assert {len({*line}) for line in picks.tolist()} == {30}
    assert {*picks[:, 0].tolist()} == {0}
    followers = np.bincount(picks.ravel(), minlength=300)
    assert followers[1:10].mean() > 3 * followers[-100:].mean()


def test_user_who_follows_everything_follows_each_subject_once() -> None:
    [line] = zipf_picks(np.random.default_rng(1), lines=1, subjects=50, picked=50).tolist()
    assert sorted(line) == [*range(50)]


def test_groups_share_no_block_and_fit_into_a_shard() -> None:
    assert SMALL.first == {"warm": 0, "crowd": 2_048}
    assert SMALL.end == 3_073
    assert SMALL.users("crowd")[0] == "u2048"
    assert Population().group("warm").users >= 2_000
    assert {group.follows for group in GROUPS} >= {1, 30, 300, 3_000}
    with pytest.raises(ValueError, match="do not fit"):
        Population(groups=(Group(name="warm", users=131_073, follows=1),))


def test_users_of_shared_block_follow_the_same_subjects() -> None:
    assert SMALL.picks(SMALL.group("crowd")).shape == (2, 2)
    assert SMALL.picks(SMALL.group("warm")).shape == (1_500, 3)


def test_background_mentions_are_distinct_and_favor_the_award_show() -> None:
    sent = [*batches(SMALL, "key", 40)]
    events = [event for request in sent for event in json.loads(request.partition(b"\r\n\r\n")[2])]
    assert len({event["id"] for event in events}) == len(events) == 40 * MENTIONS_PER_BATCH
    accounts = [event["data"]["mentions"][0] for event in events]
    assert accounts.count(SMALL.award) > len(accounts) * 0.3
    assert {*accounts} <= {*SMALL.names}
    head, _, body = sent[0].partition(b"\r\n\r\n")
    assert b"Authorization: Bearer key" in head
    assert f"Content-Length: {len(body)}".encode() in head


def test_answers_are_read_in_request_order(tmp_path: Path) -> None:
    file = tmp_path / "answers"
    lines = [[2, 304, 'HTTP/1.1 304 Not Modified\r\nETag: W/"b"', ""], [1, 200, "HTTP/1.1 200 OK", '{"items":[]}']]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    first, second = read_answers(file)
    assert (first.number, first.json) == (1, {"items": []})
    assert (second.status, second.headers) == (304, {"etag": 'W/"b"'})


def test_request_ends_with_an_empty_line() -> None:
    assert get("/v1/inbox", "t", {"If-None-Match": "x"}) == (
        b"GET /v1/inbox HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer t\r\nIf-None-Match: x\r\n\r\n"
    )


def test_herd_is_of_the_group_that_follows_one_subject() -> None:
    assert Population().group(HERD.requests).follows == 1
