"""CORS: configured origins may read exactly what `<notifier-inbox>` needs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from litestar.testing import TestClient

from notifier.api.routes.static import static_files
from notifier.domain.errors import StoreUnavailable
from tests.http.error_response_checks import assert_problem
from tests.http.live_stream_client import LiveBackend, run_live
from tests.repo.repository_files import ROOT
from tests.support.in_memory_http_api import ApiClient, MemoryBackend

PAGE, OTHER = "https://app.example", "https://other.example"
FILES = sorted(name for name in static_files() if name.startswith("notifier-inbox"))
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


def backend_for(origins: str) -> MemoryBackend:
    backend = MemoryBackend()
    backend.system = replace(backend.system, settings=replace(backend.system.settings, origins=origins))
    return backend


@pytest.fixture(scope="module")
def cors_client() -> Iterator[ApiClient]:
    """Yield a client of a system that allows PAGE and another origin."""
    backend = backend_for(f"{PAGE},http://localhost:3000")
    with TestClient(backend.app(), raise_server_exceptions=False) as client:
        yield ApiClient(backend, client)


def preflight_headers(api_client: ApiClient, path: str, origin: str, method: str = "PUT") -> dict[str, str]:
    """Return the headers of a preflight response."""
    headers = {"Origin": origin, "Access-Control-Request-Method": method}
    return dict(api_client.http.options(path, headers=headers).headers)


def cors_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in headers.items() if key.startswith("access-control")}


@pytest.mark.parametrize("path", SHARED)
@pytest.mark.parametrize("origin", [PAGE, "http://localhost:3000"])
def test_allowed_origin_may_read_the_response(path: str, origin: str, cors_client: ApiClient) -> None:
    response = cors_client.http.get(path, headers={**cors_client.bearer("u1"), "Origin": origin})
    assert response.headers["access-control-allow-origin"] == origin
    assert "access-control-allow-credentials" not in response.headers
    assert "Origin" in response.headers["vary"]


@pytest.mark.parametrize("path", SHARED)
@pytest.mark.parametrize(
    "origin", ["", OTHER, "null", "https://app.example.evil", "http://app.example", "https://app.example:8443", "*"]
)
def test_other_origin_may_not_read_the_response(path: str, origin: str, cors_client: ApiClient) -> None:
    headers = {**cors_client.bearer("u1"), **({"Origin": origin} if origin else {})}
    response = cors_client.http.get(path, headers=headers)
    assert cors_headers(response.headers) == cors_headers(preflight_headers(cors_client, path, origin)) == {}
    assert "Origin" in response.headers["vary"]


@pytest.mark.parametrize("path", NOT_SHARED)
def test_other_routes_are_shared_with_no_origin(path: str, cors_client: ApiClient) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        headers = {**cors_client.service, "Origin": PAGE, "Access-Control-Request-Method": "POST"}
        if (method, path) != ("GET", "/v1/system/stream"):
            assert cors_headers(cors_client.http.request(method, path, headers=headers).headers) == {}


def test_cors_headers_are_absent_without_configured_origins(api_client: ApiClient) -> None:
    for path in SHARED:
        response = api_client.http.get(path, headers={**api_client.bearer("u1"), "Origin": PAGE})
        assert cors_headers(response.headers) == cors_headers(preflight_headers(api_client, path, PAGE)) == {}
        assert "Origin" not in response.headers.get("vary", "")


def test_preflight_allows_the_headers_that_the_element_sends(cors_client: ApiClient) -> None:
    response = cors_client.http.options(
        "/v1/inbox/marks", headers={"Origin": PAGE, "Access-Control-Request-Method": "PUT"}
    )
    assert (response.status_code, response.content, response.headers["vary"]) == (204, b"", "Origin")
    granted = cors_headers(response.headers)
    assert granted["access-control-max-age"] == "7200"
    assert granted["access-control-allow-methods"] == "GET, PUT, PATCH, DELETE"
    source = (ROOT / "notifier/api/static/notifier-inbox/api.js").read_text()
    request_headers = {name.strip('"') for name in re.findall(r'(?:[{ ])("?[A-Z][A-Za-z-]+"?): ', source)} - {"Accept"}
    assert {"Authorization", "Content-Type", "If-None-Match", "Last-Event-ID"} == request_headers
    assert request_headers == set(granted["access-control-allow-headers"].split(", "))
    response_headers = set(re.findall(r'headers\.get\("([a-z-]+)"\)', source))
    assert response_headers <= {name.lower() for name in granted["access-control-expose-headers"].split(", ")}


def test_refusals_are_readable_by_an_allowed_origin(cors_client: ApiClient) -> None:
    origin = {"Origin": PAGE}
    refusals = [(cors_client.http.get("/v1/inbox", headers=origin), 401, "bad_token")]
    refusals += [(cors_client.http.get("/v1/inbox", headers={**cors_client.service, **origin}), 403, "forbidden")]
    refusals += [
        (
            cors_client.http.post("/v1/inbox", headers={**cors_client.bearer("u1"), **origin}),
            405,
            "method_not_allowed",
        )
    ]
    cors_client.backend.clock.advance(timedelta(seconds=1))  # otherwise the response of this second is reused
    cors_client.backend.port_errors.store, user_headers = StoreUnavailable(), {**cors_client.bearer("u1"), **origin}
    refusals += [(cors_client.http.get("/v1/inbox/unread", headers=user_headers), 503, "store_unavailable")]
    cors_client.backend.port_errors.store = None
    for response, status, code in refusals:
        assert_problem(response, status, code)
        assert response.headers["access-control-allow-origin"] == PAGE
        assert "Retry-After" in response.headers["access-control-expose-headers"]


def test_304_is_readable_by_an_allowed_origin(cors_client: ApiClient) -> None:
    headers = {**cors_client.bearer("u1"), "Origin": PAGE}
    tag = cors_client.http.get("/v1/inbox", headers=headers).headers["etag"]
    response = cors_client.http.get("/v1/inbox", headers={**headers, "If-None-Match": tag})
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (304, PAGE)


def test_stream_and_its_refusals_are_readable_by_an_allowed_origin() -> None:
    async def scenario(live: LiveBackend) -> None:
        live.backend = backend_for(PAGE)
        live.app = live.backend.app()
        streams = [await live.listen("u1", origin=PAGE) for _ in range(11)]
        assert [stream.status for stream in streams] == [200] * 10 + [429]
        assert {stream.headers["access-control-allow-origin"] for stream in streams} == {PAGE}
        assert "access-control-allow-origin" not in (await live.listen("u2", origin=OTHER)).headers

    run_live(scenario)
