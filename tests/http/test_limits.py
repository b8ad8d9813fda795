"""How much one may ask for: what is left is on every answer, and beyond it somebody waits, and nobody else."""

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
from tests.http.problems import assert_problem
from tests.support.example_event import event
from tests.support.http_app import Edge, House

SEEN = "/v1/inbox/seen"


@contextmanager
def limited(limits: RequestLimits) -> Iterator[Edge]:
    house = House(Settings(limits=limits))
    with TestClient(house.app(), raise_server_exceptions=False) as client:
        yield Edge(house, client)


def test_what_is_left_is_told_on_every_answer(edge: Edge) -> None:
    first, second = edge.inbox("u1"), edge.inbox("u1", {"If-None-Match": edge.inbox("u2").headers["etag"]})
    assert first.headers["ratelimit-policy"] == '"reads";q=1500;w=900'
    assert first.headers["ratelimit"] == '"reads";r=1499;t=1'
    assert second.headers["ratelimit"] == '"reads";r=1498;t=2'
    refused = edge.put(SEEN, "u1", {"token": "x"})
    assert (refused.status_code, refused.headers["ratelimit-policy"]) == (400, '"writes";q=300;w=10800')
    assert refused.headers["ratelimit"] == '"writes";r=299;t=36'
    edge.house.broken.store = StoreUnavailable()
    assert edge.inbox("u3").headers["ratelimit"] == '"reads";r=1499;t=1'


def test_beyond_the_limit_one_waits_and_nobody_else() -> None:
    with limited(RequestLimits(reads=3, writes=2)) as edge:
        assert [edge.inbox("u1").status_code for _ in range(3)] == [200] * 3
        refused = edge.inbox("u1")
        assert_problem(refused, 429, "too_many_requests")
        assert (refused.headers["retry-after"], refused.headers["ratelimit"]) == ("300", '"reads";r=0;t=900')
        assert [edge.inbox("u2").status_code, seen(edge).status_code, seen(edge).status_code] == [200, 400, 400]
        assert (seen(edge).status_code, seen(edge).headers["retry-after"]) == (429, "5400")
        edge.house.clock.advance(timedelta(seconds=299))
        assert edge.inbox("u1").headers["retry-after"] == "1"
        edge.house.clock.advance(timedelta(seconds=1))
        assert [edge.inbox("u1").status_code for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/inbox", "/v1/inbox/unread", "/v1/preferences", "/v1/inbox/stream"),
        "/v1/subjects/mention:nova/bursts?from=0",
    ],
)
def test_every_route_of_a_person_counts(path: str) -> None:
    with limited(RequestLimits(reads=1)) as edge:
        assert edge.inbox("u1").status_code == 200
        assert edge.client.get(path, headers=edge.bearer("u1")).status_code == 429


def test_who_has_no_good_token_takes_nothing_from_anybody() -> None:
    with limited(RequestLimits(reads=1)) as edge:
        bad = {"Authorization": f"Bearer {edge.house.token('u1')}x"}
        answers = [edge.client.get("/v1/inbox", headers=bad) for _ in range(3)]
        assert {(one.status_code, "ratelimit" in one.headers) for one in answers} == {(401, False)}
        assert edge.inbox("u1").status_code == 200


def test_second_authorization_neither_pays_for_the_first_nor_answers_for_it() -> None:
    with limited(RequestLimits(reads=1)) as edge:
        assert [asyncio.run(opened_by(edge, "u1", "u2")) for _ in range(2)] == [200, 429]
        assert edge.inbox("u2").status_code == 200
        assert edge.inbox("u1").status_code == 429


def test_services_have_no_limit_until_one_is_set(edge: Edge) -> None:
    answer = edge.post(event())
    assert (answer.status_code, "ratelimit" in answer.headers) == (202, False)
    with limited(RequestLimits(requests=2)) as other:
        assert [other.post(event(str(number))).status_code for number in range(3)] == [202, 202, 429]
        assert other.fate("1").headers["ratelimit-policy"] == '"requests";q=2;w=60'
        assert other.inbox("u1").status_code == 200


def test_a_limit_of_nothing_is_none() -> None:
    with limited(RequestLimits(reads=0, writes=0)) as edge:
        assert "ratelimit" not in edge.inbox("u1").headers
        assert "ratelimit" not in seen(edge).headers


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_what_is_open_to_anybody_has_no_limit(edge: Edge, path: str) -> None:
    assert "ratelimit" not in edge.client.get(path).headers


async def opened_by(edge: Edge, *users: str) -> int:
    """Open the inbox with a header for each. An HTTP client would make one header of them."""
    headers = [(b"authorization", edge.bearer(user)["Authorization"].encode()) for user in users]
    scope = {"type": "http", "method": "GET", "path": "/v1/inbox", "raw_path": b"/v1/inbox", "query_string": b""}
    scope |= {"headers": headers, "http_version": "1.1", "scheme": "http", "root_path": "", "server": ("a", 80)}
    said = list[dict[str, Any]]()

    async def send(message: Any) -> None:
        said.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    app: Any = edge.client.app
    await app(scope | {"client": ("127.0.0.1", 1), "asgi": {"version": "3.0"}, "extensions": {}}, receive, send)
    return int(said[0]["status"])


def seen(edge: Edge) -> httpx.Response:
    """A write; that it is refused for its token changes nothing of that."""
    return edge.put(SEEN, "u1", {"token": "x"})
