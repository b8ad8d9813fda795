"""`POST /v1/events`: valid and invalid events, duplicates, batches and outages."""

from datetime import timedelta
from typing import Any

import pytest

from notifier.domain.errors import DiskFull, LogUnavailable
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import ApiClient

BATCH = "application/cloudevents-batch+json"


@pytest.mark.parametrize("kind", ["application/cloudevents+json", "application/json; charset=utf-8"])
def test_event_is_accepted(api_client: ApiClient, kind: str) -> None:
    response = api_client.post(event("7"), kind)
    assert response.status_code == 202
    assert response.json() == {"id": "7", "source": "//tweets", "status": "accepted"}


def test_repeated_event_is_a_duplicate(api_client: ApiClient) -> None:
    api_client.post(event("7"))
    response = api_client.post(event("7"))
    assert (response.status_code, response.json()["status"]) == (202, "duplicate")


def test_same_id_with_another_body_is_a_conflict(api_client: ApiClient) -> None:
    api_client.post(event("7"))
    assert_problem(api_client.post(event("7", text="something else")), 409, "event_conflict")


def test_same_id_from_another_source_is_another_event(api_client: ApiClient) -> None:
    api_client.post(event("7"))
    assert api_client.post(event("7", more={"source": "//elsewhere"})).json()["status"] == "accepted"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b"[" * 10_000,
        b"NaN",
        b'{"specversion": "1.0"}',
    ],
    ids=lambda body: repr(body)[:30],
)
def test_malformed_body_is_refused(api_client: ApiClient, body: bytes) -> None:
    assert_problem(api_client.post(body), 400, "bad_event")


@pytest.mark.parametrize(
    "bad",
    [
        event(mentions=[]),
        event(mentions="nova"),
        event(mentions=[f"u{n}" for n in range(101)]),
        event(mentions=["no\x00va"]),
        event(mentions=["n" * 10_000]),
        event(author="a\nda"),
        event(author=""),
        event(tweet=7),
        event(id=""),
        event(id="x" * 257),
        event(more={"type": "another.type"}),
        event(more={"specversion": "0.3"}),
        event(more={"time": "yesterday"}),
        event(more={"time": "2026-01-05T12:00:00"}),
        event(at=START + timedelta(minutes=6)),
        event(at=START - timedelta(days=90)),
    ],
    ids=lambda bad: str(bad)[-60:],
)
def test_event_with_an_invalid_field_is_refused_with_the_reason(api_client: ApiClient, bad: dict[str, Any]) -> None:
    assert assert_problem(api_client.post(bad), 400, "bad_event")["detail"]


def test_unknown_fields_are_ignored(api_client: ApiClient) -> None:
    assert api_client.post(event(more={"datacontenttype": "text/plain", "x": 1}, mood="good")).status_code == 202


def test_event_of_yesterday_is_accepted(api_client: ApiClient) -> None:
    assert api_client.post(event(at=START - timedelta(days=1))).status_code == 202


@pytest.mark.parametrize("kind", ["text/plain", "", "application/xml", "application/cloudevents+jsonx"])
def test_wrong_content_type_is_refused(api_client: ApiClient, kind: str) -> None:
    assert_problem(api_client.post(event(), kind), 415, "wrong_content_type")


def test_event_larger_than_64_kib_is_refused(api_client: ApiClient) -> None:
    assert api_client.post(event(text="x" * 60_000)).status_code == 202
    assert_problem(api_client.post(event("2", text="x" * 66_000)), 413, "too_large")


def test_body_without_a_length_is_refused_above_the_limit(api_client: ApiClient) -> None:
    chunks = (b"x" * 16_384 for _ in range(320))  # 5 MiB; a batch may have 4
    headers = {**api_client.service, "Content-Type": "application/json"}
    assert_problem(api_client.http.post("/v1/events", content=chunks, headers=headers), 413, "too_large")


def test_batch_is_answered_event_by_event(api_client: ApiClient) -> None:
    api_client.post(event("1"))
    response = api_client.batch(event("1"), event("2"), {"id": "3"}, event("1", text="other"), event("2"))
    assert response.status_code == 202
    results = response.json()["results"]
    assert [result["status"] for result in results] == ["duplicate", "accepted", "refused", "refused", "duplicate"]
    assert [result["problem"]["code"] for result in results if "problem" in result] == ["bad_event", "event_conflict"]


def test_batch_of_refusals_gets_the_status_of_the_first(api_client: ApiClient) -> None:
    api_client.post(event("1"))
    assert_problem(api_client.batch(event("1", text="other"), {}), 409, "event_conflict")


@pytest.mark.parametrize("body", [b"[]", b"{}", b"[", b"7"])
def test_malformed_batch_is_refused(api_client: ApiClient, body: bytes) -> None:
    assert_problem(api_client.post(body, BATCH), 400, "bad_event")


def test_batch_of_more_than_1000_events_is_refused(api_client: ApiClient) -> None:
    assert_problem(api_client.post([{}] * 1_001, BATCH), 413, "too_large")


def test_batch_of_1000_events_is_accepted(api_client: ApiClient) -> None:
    response = api_client.batch(*(event(str(number)) for number in range(1_000)))
    assert {result["status"] for result in response.json()["results"]} == {"accepted"}


def test_batch_larger_than_4_mib_is_refused(api_client: ApiClient) -> None:
    assert_problem(api_client.post(b"[" + b" " * (4 << 20) + b"]", BATCH), 413, "too_large")


def test_full_disk_is_507(api_client: ApiClient) -> None:
    api_client.backend.port_errors.log = DiskFull()
    assert_problem(api_client.post(event()), 507, "disk_full")


def test_log_outage_is_503_until_the_log_returns(api_client: ApiClient) -> None:
    api_client.backend.port_errors.log = LogUnavailable()
    response = api_client.post(event())
    assert_problem(response, 503, "log_unavailable")
    assert response.headers["retry-after"] == "1"
    api_client.backend.port_errors.log = None
    assert api_client.post(event()).json()["status"] == "accepted"


def test_internal_error_hides_its_details(api_client: ApiClient) -> None:
    api_client.backend.port_errors.log = ZeroDivisionError("insides")
    response = api_client.post(event())
    assert_problem(response, 500, "error")
    assert "insides" not in response.text
