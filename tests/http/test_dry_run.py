"""A dry run reports what a mention would do, without doing it."""

from typing import Any

import httpx
import pytest

from notifier.domain.upstream.validation import DELETED_TYPE
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.in_memory_http_api import ApiClient


def dry_run(
    api_client: ApiClient, body: object, *, value: str = "true", kind: str = "application/cloudevents+json"
) -> httpx.Response:
    return api_client.http.post(
        f"/v1/events?dry_run={value}", json=body, headers={**api_client.service, "Content-Type": kind}
    )


def assert_not_sent(api_client: ApiClient, id: str) -> None:
    api_client.backend.sequence()
    assert api_client.http.get(f"/v1/events/{id}", headers=api_client.service).status_code == 404
    assert api_client.backend.bursts.by_key == {}


def test_dry_run_reports_recipients_and_delivers_nothing(api_client: ApiClient) -> None:
    response = dry_run(api_client, event("dry"))
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
    assert_not_sent(api_client, "dry")


def test_dry_run_reports_that_the_mention_joins_the_open_burst(api_client: ApiClient) -> None:
    api_client.mention()
    [account] = dry_run(api_client, event("dry", author="bob")).json()["accounts"]
    assert (account["burst"], account["count"], account["tiers"]) == ("mention:nova#1", 2, {})
    assert "joins" in account["note"]


@pytest.mark.parametrize(
    ("account", "refusal"), [("nobody", "unknown_account"), ("gone", "deleted_account"), ("shy", "not_wanted")]
)
def test_dry_run_reports_refusals_per_account(api_client: ApiClient, account: str, refusal: str) -> None:
    accounts = dry_run(api_client, event("dry", mentions=[account, "nova"])).json()["accounts"]
    assert [(entry["account"], entry["refusal"]) for entry in accounts] == [(account, refusal), ("nova", None)]
    assert (accounts[0]["burst"], accounts[0]["tiers"]) == (None, {})


def test_dry_run_of_a_deleted_tweet_reports_it_as_retracted(api_client: ApiClient) -> None:
    deleted = {**event("d1"), "type": DELETED_TYPE, "data": {"tweet": "t1", "author": "ada"}}
    assert api_client.post(deleted).status_code == 202
    [account] = dry_run(api_client, event("dry", tweet="t1")).json()["accounts"]
    assert (account["refusal"], account["burst"], account["tiers"]) == ("retracted", None, {})
    assert api_client.post(event("dry", tweet="t1")).status_code == 202
    api_client.backend.sequence()
    [entry] = api_client.get_event("dry").json()["accounts"]
    assert (entry["refusal"], api_client.backend.bursts.by_key) == ("retracted", {})


def test_dry_run_of_an_invalid_event_is_refused(api_client: ApiClient) -> None:
    assert_problem(dry_run(api_client, event("dry", mentions=[])), 400, "bad_event")
    assert_problem(api_client.http.post("/v1/events?dry_run=true", json=event("dry")), 401, "bad_token")


@pytest.mark.parametrize(
    "value",
    ["", "1", "yes", "TRUE", "true&dry_run=maybe", "true&dry_run=false", "false&dry_run=true", "false&dry_run=false"],
)
def test_invalid_dry_run_parameter_is_refused(api_client: ApiClient, value: str) -> None:
    assert dry_run(api_client, event("dry"), value=value).status_code == 400
    assert_not_sent(api_client, "dry")


def test_dry_run_of_a_batch_or_a_follow_is_refused(api_client: ApiClient) -> None:
    assert_problem(dry_run(api_client, [event("dry")], kind="application/cloudevents-batch+json"), 400, "not_supported")
    follow = event("dry") | {"type": "notifier.account.followed.v1"}
    follow["data"] = {"follower": "u1", "followed": "nova", "sequence": 3}
    assert_problem(dry_run(api_client, follow), 400, "not_supported")
    assert_not_sent(api_client, "dry")


def test_dry_run_of_too_many_accounts_is_refused(api_client: ApiClient) -> None:
    assert_problem(dry_run(api_client, event("dry", mentions=["nova", "ada", "bob", "u1"])), 400, "not_supported")


def test_second_concurrent_dry_run_is_refused(api_client: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    read_live, responses = api_client.backend.sets.live, list[httpx.Response]()

    def dry_run_meanwhile(*arguments: Any, **keywords: Any) -> Any:
        if not responses:
            responses.append(dry_run(api_client, event("other")))
        return read_live(*arguments, **keywords)

    monkeypatch.setattr(api_client.backend.sets, "live", dry_run_meanwhile)
    assert dry_run(api_client, event("dry")).status_code == 200
    assert_problem(responses[0], 503, "unavailable")


def test_dry_run_false_delivers(api_client: ApiClient) -> None:
    assert dry_run(api_client, event("wet"), value="false").status_code == 202
    api_client.backend.sequence()
    assert api_client.http.get("/v1/events/wet", headers=api_client.service).json()["status"] == "sequenced"
