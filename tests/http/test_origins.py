"""Pages of other origins: the named ones get what `<notifier-inbox>` needs, its refusals included, and nothing more."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from litestar.testing import TestClient

from notifier.api.routes.static import known
from notifier.domain.errors import StoreUnavailable
from tests.http.listening_client import LiveHouse, run_live
from tests.http.problems import assert_problem
from tests.repo.sources import ROOT
from tests.support.http_app import Edge, House

PAGE, OTHER = "https://app.example", "https://other.example"
FILES = sorted(name for name in known() if name.startswith("notifier-inbox"))
SHARED = [
    "/v1/inbox",
    "/v1/inbox/unread",
    "/v1/inbox/nothing",
    "/v1/subjects/mention:nova/bursts?from=0",
    "/v1/preferences",
    "/v1/devices",
    *(f"/static/{name}" for name in FILES),
]
NOT_SHARED = [
    *("/v1/events", "/v1/events/1", "/v1/system", "/v1/system/stream", "/demo/people", "/demo/storm", "/metrics", "/"),
    *("/healthz", "/openapi.json", "/static/demo.html", "/static/demo/main.js", "/static/inbox.html", "/v1/inboxes"),
]


def house_for(origins: str) -> House:
    house = House()
    house.system = replace(house.system, settings=replace(house.system.settings, origins=origins))
    return house


@pytest.fixture(scope="module")
def named() -> Iterator[Edge]:
    """An edge that names a page, and another one."""
    house = house_for(f"{PAGE},http://localhost:3000")
    with TestClient(house.app(), raise_server_exceptions=False) as client:
        yield Edge(house, client)


def asks(edge: Edge, path: str, origin: str, method: str = "PUT") -> dict[str, str]:
    """What a preflight is told."""
    headers = {"Origin": origin, "Access-Control-Request-Method": method}
    return dict(edge.client.options(path, headers=headers).headers)


def granted(headers: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in headers.items() if key.startswith("access-control")}


@pytest.mark.parametrize("path", SHARED)
@pytest.mark.parametrize("origin", [PAGE, "http://localhost:3000"])
def test_a_named_page_may_read_the_answer_and_no_cache_gives_it_to_another(path: str, origin: str, named: Edge) -> None:
    answer = named.client.get(path, headers={**named.bearer("u1"), "Origin": origin})
    assert answer.headers["access-control-allow-origin"] == origin
    assert "access-control-allow-credentials" not in answer.headers
    assert "Origin" in answer.headers["vary"]


@pytest.mark.parametrize("path", SHARED)
@pytest.mark.parametrize(
    "origin", ["", OTHER, "null", "https://app.example.evil", "http://app.example", "https://app.example:8443", "*"]
)
def test_any_other_page_may_not(path: str, origin: str, named: Edge) -> None:
    headers = {**named.bearer("u1"), **({"Origin": origin} if origin else {})}
    answer = named.client.get(path, headers=headers)
    assert granted(answer.headers) == granted(asks(named, path, origin)) == {}
    assert "Origin" in answer.headers["vary"]


@pytest.mark.parametrize("path", NOT_SHARED)
def test_nothing_else_is_shared_with_any_page(path: str, named: Edge) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        headers = {**named.service, "Origin": PAGE, "Access-Control-Request-Method": "POST"}
        if (method, path) != ("GET", "/v1/system/stream"):
            assert granted(named.client.request(method, path, headers=headers).headers) == {}


def test_where_no_page_is_named_nothing_is_said(edge: Edge) -> None:
    for path in SHARED:
        answer = edge.client.get(path, headers={**edge.bearer("u1"), "Origin": PAGE})
        assert granted(answer.headers) == granted(asks(edge, path, PAGE)) == {}
        assert "Origin" not in answer.headers.get("vary", "")


def test_a_preflight_is_told_what_the_element_sends_without_a_token(named: Edge) -> None:
    answer = named.client.options("/v1/inbox/marks", headers={"Origin": PAGE, "Access-Control-Request-Method": "PUT"})
    assert (answer.status_code, answer.content, answer.headers["vary"]) == (204, b"", "Origin")
    told = granted(answer.headers)
    assert told["access-control-max-age"] == "7200"
    assert told["access-control-allow-methods"] == "GET, PUT, PATCH, DELETE"
    source = (ROOT / "notifier/api/static/notifier-inbox/api.js").read_text()
    sent = {name.strip('"') for name in re.findall(r'(?:[{ ])("?[A-Z][A-Za-z-]+"?): ', source)} - {"Accept"}
    assert {"Authorization", "Content-Type", "If-None-Match", "Last-Event-ID"} == sent
    assert sent == set(told["access-control-allow-headers"].split(", "))
    read = set(re.findall(r'headers\.get\("([a-z-]+)"\)', source))
    assert read <= {name.lower() for name in told["access-control-expose-headers"].split(", ")}


def test_refusals_can_be_read_by_the_page(named: Edge) -> None:
    page = {"Origin": PAGE}
    refused = [(named.client.get("/v1/inbox", headers=page), 401, "bad_token")]
    refused += [(named.client.get("/v1/inbox", headers={**named.service, **page}), 403, "forbidden")]
    refused += [(named.client.post("/v1/inbox", headers={**named.bearer("u1"), **page}), 405, "method_not_allowed")]
    named.house.clock.advance(timedelta(seconds=1))  # or what was read just now would answer
    named.house.broken.store, person = StoreUnavailable(), {**named.bearer("u1"), **page}
    refused += [(named.client.get("/v1/inbox/unread", headers=person), 503, "store_unavailable")]
    named.house.broken.store = None
    for answer, status, code in refused:
        assert_problem(answer, status, code)
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "Retry-After" in answer.headers["access-control-expose-headers"]


def test_what_has_not_changed_can_be_read_too(named: Edge) -> None:
    page = {**named.bearer("u1"), "Origin": PAGE}
    tag = named.client.get("/v1/inbox", headers=page).headers["etag"]
    answer = named.client.get("/v1/inbox", headers={**page, "If-None-Match": tag})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (304, PAGE)


def test_a_stream_and_its_refusals_are_for_the_page() -> None:
    async def scenario(live: LiveHouse) -> None:
        live.house = house_for(PAGE)
        live.app = live.house.app()
        ears = [await live.listen("u1", origin=PAGE) for _ in range(11)]
        assert [stream.status for stream in ears] == [200] * 10 + [429]
        assert {stream.headers["access-control-allow-origin"] for stream in ears} == {PAGE}
        assert "access-control-allow-origin" not in (await live.listen("u2", origin=OTHER)).headers

    run_live(scenario)
