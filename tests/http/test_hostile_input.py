"""Hostile requests get a status and a code, and never reach the internals."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.in_memory_http_api import ApiClient

MARKS = "/v1/inbox/marks"
BATCH = "application/cloudevents-batch+json"


def event_json(suffix: bytes = b"", **fields: Any) -> bytes:
    """Return an event as JSON, with suffix JSON behind its last field."""
    return json.dumps(event(**fields)).encode()[:-1] + suffix + b"}"


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "deflate, gzip"])
def test_compressed_body_is_refused_as_unsupported_type(api_client: ApiClient, encoding: str) -> None:
    packed = {"Content-Type": "application/json", "Content-Encoding": encoding}
    body = gzip.compress(event_json())
    response = api_client.http.post("/v1/events", content=body, headers={**api_client.service, **packed})
    assert_problem(response, 415, "wrong_content_type")
    response = api_client.http.put(MARKS, content=body, headers={**api_client.bearer("u1"), **packed})
    assert_problem(response, 415, "wrong_content_type")


def test_identity_encoding_is_accepted(api_client: ApiClient) -> None:
    plain = {"Content-Type": "application/json", "Content-Encoding": "identity"}
    assert (
        api_client.http.post("/v1/events", content=event_json(), headers={**api_client.service, **plain}).status_code
        == 202
    )


@pytest.mark.parametrize("path", ["/v1/inbox/seen", MARKS])
def test_long_body_without_a_length_is_refused(api_client: ApiClient, path: str) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"token": "'
        for _ in range(20):
            yield b"x" * 8_192
        yield b'"}'

    headers = {**api_client.bearer("u1"), "Content-Type": "application/json"}
    assert_problem(api_client.http.put(path, content=chunks(), headers=headers), 413, "too_large")


@pytest.mark.parametrize("character", ["\\ud800", "\\udfff", "\\u0000", "\\u001b", "\\u0085", "\x00"])
@pytest.mark.parametrize("field", ["id", "source", "tweet", "author", "nova"])
def test_surrogate_or_control_character_in_a_name_is_refused(api_client: ApiClient, field: str, character: str) -> None:
    names = {"id": "1", "source": "//tweets", "tweet": "t1", "author": "ada", "nova": "nova"}
    body = event_json().replace(f'"{names[field]}"'.encode(), f'"{names[field]}{character}"'.encode())
    assert body != event_json()
    assert_problem(api_client.post(body), 400, "bad_event")


def test_control_characters_are_removed_from_text(api_client: ApiClient) -> None:
    assert api_client.post(event(text="a\x00\x1b[31m b\nc")).status_code == 202
    api_client.backend.sequence()
    [burst, _] = sorted(api_client.backend.bursts.by_key.values(), key=lambda burst: str(burst.key))
    assert burst.text == "a[31m b\nc"


@pytest.mark.parametrize("number", ["9" * 5_000, "1e999999", "-1E+400", "0." + "0" * 5_000 + "1"])
def test_huge_number_is_ignored_in_unknown_fields_and_refused_in_known_ones(api_client: ApiClient, number: str) -> None:
    assert api_client.post(event_json(b', "x": ' + number.encode())).status_code == 202
    time = json.dumps(event()["time"]).encode()
    assert_problem(api_client.post(event_json(id="2").replace(time, number.encode())), 400, "bad_event")


@pytest.mark.parametrize("kind", ["application/json", BATCH])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"x":', b"}")])
def test_deep_nesting_in_an_unknown_field_is_refused(
    api_client: ApiClient, kind: str, opening: bytes, closing: bytes
) -> None:
    body = event_json(b', "x": ' + opening * 9_000 + b"1" + closing * 9_000)
    assert_problem(api_client.post(b"[" + body + b"]" if kind == BATCH else body, kind), 400, "bad_event")


@pytest.mark.parametrize(
    "time",
    ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "0000-00-00T00:00:00Z", "2026-01-05T24:00:00Z", "1", ""],
)
def test_time_out_of_range_is_refused(api_client: ApiClient, time: str) -> None:
    assert_problem(api_client.post(event(more={"time": time})), 400, "bad_event")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32"])
def test_encoding_other_than_utf_8_is_refused(api_client: ApiClient, encoding: str) -> None:
    assert_problem(api_client.post(event_json().decode().encode(encoding)), 400, "bad_event")


def test_repeated_id_in_a_batch_is_one_mention(api_client: ApiClient) -> None:
    results = api_client.batch(event("1"), event("1"), event("1", text="other"), event("1")).json()["results"]
    assert [result["status"] for result in results] == ["accepted", "duplicate", "refused", "duplicate"]
    assert results[2]["problem"]["code"] == "event_conflict"
    api_client.backend.sequence()
    assert {burst.count for burst in api_client.backend.bursts.by_key.values()} == {1}


def test_too_large_event_in_a_batch_is_refused_alone(api_client: ApiClient) -> None:
    results = api_client.batch(event("1", text="x" * 70_000), event("2")).json()["results"]
    assert [(result["status"], result.get("problem", {}).get("code")) for result in results] == [
        ("refused", "too_large"),
        ("accepted", None),
    ]


@pytest.mark.parametrize("id", ["%00", "%ED%A0%80", "%ff", "x" * 3_000])
def test_impossible_event_id_is_not_found(api_client: ApiClient, id: str) -> None:
    assert_problem(api_client.get_event(id), 404, "not_found")


@pytest.mark.parametrize(
    ("burst", "code"),
    [
        ("mention:\\ud800#1", "refused"),
        ("mention:nova#" + "9" * 400, "bad_mark"),
        ("mention:nova#-1", "bad_mark"),
    ],
)
def test_mark_of_an_impossible_burst_id_is_refused(api_client: ApiClient, burst: str, code: str) -> None:
    headers = {**api_client.bearer("u1"), "Content-Type": "application/json"}
    body = f'{{"bursts": ["{burst}"], "mark": "read"}}'.encode()
    assert_problem(api_client.http.put(MARKS, content=body, headers=headers), 400, code)
