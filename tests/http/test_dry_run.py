"""A dry run reports what a mention would do, without doing it."""

from typing import Any

import httpx
import pytest

from notifier.domain.upstream.validation import DELETED_TYPE
from tests.http.error_response_checks import assert_problem
from tests.support.example_event import event
from tests.support.in_memory_http_api import Edge


def dry_run(
    edge: Edge, body: object, *, value: str = "true", kind: str = "application/cloudevents+json"
) -> httpx.Response:
    return edge.client.post(f"/v1/events?dry_run={value}", json=body, headers={**edge.service, "Content-Type": kind})


def assert_not_sent(edge: Edge, id: str) -> None:
    edge.backend.sequence()
    assert edge.client.get(f"/v1/events/{id}", headers=edge.service).status_code == 404
    assert edge.backend.bursts.by_key == {}


def test_dry_run_reports_recipients_and_delivers_nothing(edge: Edge) -> None:
    response = dry_run(edge, event("dry"))
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-store")
    [entry] = response.json()["accounts"]
    assert (entry["account"], entry["burst"], entry["followers"], entry["note"]) == (
        "nova",
        "mention:nova#1",
        3,
        None,
    )
    p1 = {"people": 3, "alerted": 0, "rows": 1, "bytes": 24 + len("mention:nova") + 3 * 2}
    assert entry["tiers"]["p1"] == p1 | {"eta_seconds": None, "held_by": None}
    assert {name: tier["people"] for name, tier in entry["tiers"].items()} == {"p0": 0, "p1": 3, "p2": 0}
    assert_not_sent(edge, "dry")


def test_dry_run_reports_that_the_mention_joins_the_open_burst(edge: Edge) -> None:
    edge.mention()
    [account] = dry_run(edge, event("dry", author="bob")).json()["accounts"]
    assert (account["burst"], account["count"], account["tiers"]) == ("mention:nova#1", 2, {})
    assert "joins" in account["note"]


@pytest.mark.parametrize(
    ("account", "refusal"), [("nobody", "unknown_account"), ("gone", "deleted_account"), ("shy", "not_wanted")]
)
def test_dry_run_reports_refusals_per_account(edge: Edge, account: str, refusal: str) -> None:
    accounts = dry_run(edge, event("dry", mentions=[account, "nova"])).json()["accounts"]
    assert [(entry["account"], entry["refusal"]) for entry in accounts] == [(account, refusal), ("nova", None)]
    assert (accounts[0]["burst"], accounts[0]["tiers"]) == (None, {})


def test_dry_run_of_a_deleted_tweet_reports_it_as_retracted(edge: Edge) -> None:
    deleted = {**event("d1"), "type": DELETED_TYPE, "data": {"tweet": "t1", "author": "ada"}}
    assert edge.post(deleted).status_code == 202
    [account] = dry_run(edge, event("dry", tweet="t1")).json()["accounts"]
    assert (account["refusal"], account["burst"], account["tiers"]) == ("retracted", None, {})
    assert edge.post(event("dry", tweet="t1")).status_code == 202
    edge.backend.sequence()
    [entry] = edge.get_event("dry").json()["accounts"]
    assert (entry["refusal"], edge.backend.bursts.by_key) == ("retracted", {})


def test_dry_run_of_an_invalid_event_is_refused(edge: Edge) -> None:
    assert_problem(dry_run(edge, event("dry", mentions=[])), 400, "bad_event")
    assert_problem(edge.client.post("/v1/events?dry_run=true", json=event("dry")), 401, "bad_token")


@pytest.mark.parametrize(
    "value",
    ["", "1", "yes", "TRUE", "true&dry_run=maybe", "true&dry_run=false", "false&dry_run=true", "false&dry_run=false"],
)
def test_invalid_dry_run_parameter_is_refused(edge: Edge, value: str) -> None:
    assert dry_run(edge, event("dry"), value=value).status_code == 400
    assert_not_sent(edge, "dry")


def test_dry_run_of_a_batch_or_a_follow_is_refused(edge: Edge) -> None:
    assert_problem(dry_run(edge, [event("dry")], kind="application/cloudevents-batch+json"), 400, "not_supported")
    follow = event("dry") | {"type": "notifier.account.followed.v1"}
    follow["data"] = {"follower": "u1", "followed": "nova", "sequence": 3}
    assert_problem(dry_run(edge, follow), 400, "not_supported")
    assert_not_sent(edge, "dry")


def test_dry_run_of_too_many_accounts_is_refused(edge: Edge) -> None:
    assert_problem(dry_run(edge, event("dry", mentions=["nova", "ada", "bob", "u1"])), 400, "not_supported")


def test_second_concurrent_dry_run_is_refused(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    read_live, responses = edge.backend.sets.live, list[httpx.Response]()

    def dry_run_meanwhile(*arguments: Any, **keywords: Any) -> Any:
        if not responses:
            responses.append(dry_run(edge, event("other")))
        return read_live(*arguments, **keywords)

    monkeypatch.setattr(edge.backend.sets, "live", dry_run_meanwhile)
    assert dry_run(edge, event("dry")).status_code == 200
    assert_problem(responses[0], 503, "unavailable")


def test_dry_run_false_delivers(edge: Edge) -> None:
    assert dry_run(edge, event("wet"), value="false").status_code == 202
    edge.backend.sequence()
    assert edge.client.get("/v1/events/wet", headers=edge.service).json()["status"] == "sequenced"
