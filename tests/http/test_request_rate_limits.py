"""Request limits: every response shows the remaining requests, and a user over the limit waits."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient

from notifier.config import RequestLimits, Settings
from notifier.domain.errors import StoreUnavailable
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.in_memory_http_api import ApiClient, MemoryBackend

SEEN = "/v1/inbox/seen"


@contextmanager
def client_with_limits(limits: RequestLimits) -> Iterator[ApiClient]:
    backend = MemoryBackend(Settings(limits=limits))
    with TestClient(backend.app(), raise_server_exceptions=False) as client:
        yield ApiClient(backend, client)


def test_remaining_requests_are_in_every_response(api_client: ApiClient) -> None:
    first, second = (
        api_client.inbox("u1"),
        api_client.inbox("u1", {"If-None-Match": api_client.inbox("u2").headers["etag"]}),
    )
    assert first.headers["ratelimit-policy"] == '"reads";q=1500;w=900'
    assert first.headers["ratelimit"] == '"reads";r=1499;t=1'
    assert second.headers["ratelimit"] == '"reads";r=1498;t=2'
    refused = api_client.put(SEEN, "u1", {"token": "x"})
    assert (refused.status_code, refused.headers["ratelimit-policy"]) == (400, '"writes";q=300;w=10800')
    assert refused.headers["ratelimit"] == '"writes";r=299;t=36'
    api_client.backend.port_errors.store = StoreUnavailable()
    assert api_client.inbox("u3").headers["ratelimit"] == '"reads";r=1499;t=1'


def test_user_over_the_limit_waits_and_others_do_not() -> None:
    with client_with_limits(RequestLimits(reads=3, writes=2)) as api_client:
        assert [api_client.inbox("u1").status_code for _ in range(3)] == [200] * 3
        refused = api_client.inbox("u1")
        assert_problem(refused, 429, "too_many_requests")
        assert (refused.headers["retry-after"], refused.headers["ratelimit"]) == ("300", '"reads";r=0;t=900')
        assert [
            api_client.inbox("u2").status_code,
            put_seen(api_client).status_code,
            put_seen(api_client).status_code,
        ] == [200, 400, 400]
        assert (put_seen(api_client).status_code, put_seen(api_client).headers["retry-after"]) == (429, "5400")
        api_client.backend.clock.advance(timedelta(seconds=299))
        assert api_client.inbox("u1").headers["retry-after"] == "1"
        api_client.backend.clock.advance(timedelta(seconds=1))
        assert [api_client.inbox("u1").status_code for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/inbox", "/v1/inbox/unread", "/v1/preferences", "/v1/inbox/stream"),
        "/v1/subjects/mention:nova/bursts?from=0",
    ],
)
def test_every_user_route_counts(path: str) -> None:
    with client_with_limits(RequestLimits(reads=1)) as api_client:
        assert api_client.inbox("u1").status_code == 200
        assert api_client.http.get(path, headers=api_client.bearer("u1")).status_code == 429


def test_request_with_a_bad_token_counts_for_no_user() -> None:
    with client_with_limits(RequestLimits(reads=1)) as api_client:
        bad = {"Authorization": f"Bearer {api_client.backend.token('u1')}x"}
        responses = [api_client.http.get("/v1/inbox", headers=bad) for _ in range(3)]
        assert {(response.status_code, "ratelimit" in response.headers) for response in responses} == {(401, False)}
        assert api_client.inbox("u1").status_code == 200


def test_second_authorization_header_is_not_counted() -> None:
    with client_with_limits(RequestLimits(reads=1)) as api_client:
        assert [asyncio.run(status_with_headers_of(api_client, "u1", "u2")) for _ in range(2)] == [200, 429]
        assert api_client.inbox("u2").status_code == 200
        assert api_client.inbox("u1").status_code == 429


def test_services_are_unlimited_by_default(api_client: ApiClient) -> None:
    response = api_client.post(event())
    assert (response.status_code, "ratelimit" in response.headers) == (202, False)
    with client_with_limits(RequestLimits(requests=2)) as limited_client:
        assert [limited_client.post(event(str(number))).status_code for number in range(3)] == [202, 202, 429]
        assert limited_client.get_event("1").headers["ratelimit-policy"] == '"requests";q=2;w=60'
        assert limited_client.inbox("u1").status_code == 200


def test_limit_of_zero_is_unlimited() -> None:
    with client_with_limits(RequestLimits(reads=0, writes=0)) as api_client:
        assert "ratelimit" not in api_client.inbox("u1").headers
        assert "ratelimit" not in put_seen(api_client).headers


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_public_routes_are_unlimited(api_client: ApiClient, path: str) -> None:
    assert "ratelimit" not in api_client.http.get(path).headers


async def status_with_headers_of(api_client: ApiClient, *users: str) -> int:
    """Open the inbox with one header per user. An HTTP client would merge them into one header."""
    headers = [(b"authorization", api_client.bearer(user)["Authorization"].encode()) for user in users]
    scope = {"type": "http", "method": "GET", "path": "/v1/inbox", "raw_path": b"/v1/inbox", "query_string": b""}
    scope |= {"headers": headers, "http_version": "1.1", "scheme": "http", "root_path": "", "server": ("a", 80)}
    messages = list[dict[str, Any]]()

    async def send(message: Any) -> None:
        messages.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    app: Any = api_client.http.app
    await app(scope | {"client": ("127.0.0.1", 1), "asgi": {"version": "3.0"}, "extensions": {}}, receive, send)
    return int(messages[0]["status"])


def put_seen(api_client: ApiClient) -> httpx.Response:
    """Send a write. It is refused for its token, which the limit doesn't regard."""
    return api_client.put(SEEN, "u1", {"token": "x"})
