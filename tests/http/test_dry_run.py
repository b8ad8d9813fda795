"""A dry run: what a mention would do, told and not done."""

from typing import Any

import httpx
import pytest

from notifier.domain.upstream.validation import DELETED_TYPE
from tests.http.problems import assert_problem
from tests.support.example_event import event
from tests.support.http_app import Edge


def dry(edge: Edge, body: object, *, asked: str = "true", kind: str = "application/cloudevents+json") -> httpx.Response:
    return edge.client.post(f"/v1/events?dry_run={asked}", json=body, headers={**edge.service, "Content-Type": kind})


def untouched(edge: Edge, id: str) -> None:
    edge.house.sequence()
    assert edge.client.get(f"/v1/events/{id}", headers=edge.service).status_code == 404
    assert edge.house.bursts.by_key == {}


def test_it_says_whom_a_mention_would_reach_and_reaches_nobody(edge: Edge) -> None:
    answer = dry(edge, event("dry"))
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    [found] = answer.json()["accounts"]
    assert (found["account"], found["burst"], found["followers"], found["note"]) == ("nova", "mention:nova#1", 3, None)
    p1 = {"people": 3, "phones": 0, "rows": 1, "bytes": 24 + len("mention:nova") + 3 * 2}
    assert found["tiers"]["p1"] == p1 | {"eta_seconds": None, "held_by": None}
    assert {name: tier["people"] for name, tier in found["tiers"].items()} == {"p0": 0, "p1": 3, "p2": 0}
    untouched(edge, "dry")


def test_of_a_burst_that_is_open_it_says_that_nobody_is_told_anew(edge: Edge) -> None:
    edge.mention()
    [found] = dry(edge, event("dry", author="bob")).json()["accounts"]
    assert (found["burst"], found["count"], found["tiers"]) == ("mention:nova#1", 2, {})
    assert "joins" in found["note"]


@pytest.mark.parametrize(
    ("whom", "why"), [("nobody", "unknown_account"), ("gone", "deleted_account"), ("shy", "not_wanted")]
)
def test_whoever_would_be_refused_is_told_why(edge: Edge, whom: str, why: str) -> None:
    found = dry(edge, event("dry", mentions=[whom, "nova"])).json()["accounts"]
    assert [(one["account"], one["refusal"]) for one in found] == [(whom, why), ("nova", None)]
    assert (found[0]["burst"], found[0]["tiers"]) == (None, {})


def test_of_a_tweet_that_was_deleted_it_says_so_and_the_real_one_right_behind_it_is_told_to_nobody(edge: Edge) -> None:
    deleted = {**event("d1"), "type": DELETED_TYPE, "data": {"tweet": "t1", "author": "ada"}}
    assert edge.post(deleted).status_code == 202
    [found] = dry(edge, event("dry", tweet="t1")).json()["accounts"]
    assert (found["refusal"], found["burst"], found["tiers"]) == ("retracted", None, {})
    assert edge.post(event("dry", tweet="t1")).status_code == 202
    edge.house.sequence()
    [told] = edge.fate("dry").json()["accounts"]
    assert (told["refusal"], edge.house.bursts.by_key) == ("retracted", {})


def test_a_bad_event_is_refused_as_ever(edge: Edge) -> None:
    assert_problem(dry(edge, event("dry", mentions=[])), 400, "bad_event")
    assert_problem(edge.client.post("/v1/events?dry_run=true", json=event("dry")), 401, "bad_token")


@pytest.mark.parametrize(
    "asked",
    ["", "1", "yes", "TRUE", "true&dry_run=maybe", "true&dry_run=false", "false&dry_run=true", "false&dry_run=false"],
)
def test_other_words_for_it_are_refused_and_nothing_is_delivered(edge: Edge, asked: str) -> None:
    assert dry(edge, event("dry"), asked=asked).status_code == 400
    untouched(edge, "dry")


def test_a_batch_and_a_follow_are_refused(edge: Edge) -> None:
    assert_problem(dry(edge, [event("dry")], kind="application/cloudevents-batch+json"), 400, "not_supported")
    follow = event("dry") | {"type": "notifier.account.followed.v1"}
    follow["data"] = {"follower": "u1", "followed": "nova", "sequence": 3}
    assert_problem(dry(edge, follow), 400, "not_supported")
    untouched(edge, "dry")


def test_of_more_accounts_than_a_few_it_is_refused(edge: Edge) -> None:
    assert_problem(dry(edge, event("dry", mentions=["nova", "ada", "bob", "u1"])), 400, "not_supported")


def test_while_another_is_counted_it_is_refused(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    live, answers = edge.house.sets.live, list[httpx.Response]()

    def counting(*given: Any, **named: Any) -> Any:
        if not answers:
            answers.append(dry(edge, event("other")))
        return live(*given, **named)

    monkeypatch.setattr(edge.house.sets, "live", counting)
    assert dry(edge, event("dry")).status_code == 200
    assert_problem(answers[0], 503, "unavailable")


def test_false_delivers(edge: Edge) -> None:
    assert dry(edge, event("wet"), asked="false").status_code == 202
    edge.house.sequence()
    assert edge.client.get("/v1/events/wet", headers=edge.service).json()["status"] == "sequenced"
