"""The authorization matrix: every route for every kind of caller."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import combinations
from pathlib import Path

import jwt
import pytest
from litestar import Litestar
from litestar.routes import HTTPRoute
from litestar.testing import TestClient

from notifier.api.auth.authenticators import issue_token
from notifier.api.auth.service_and_installation_keys import InstallationKeys, Scope, ServiceKeyFile, new_key
from notifier.config import Settings
from notifier.domain.ids import UserId
from tests.http.client_from_address import client_from
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.in_memory_http_api import SECRET, SERVICE_KEY, ApiClient, MemoryBackend
from tests.support.token_issuer import VALID_CLAIMS, FakeIssuer, ed, pem, rsa, signed_with_public_key

Route = tuple[str, str]
OPEN, USER, SERVICE, LOCAL, VISITOR = "open", "user", "service", "local address", "visitor"
SCOPES: Mapping[Route, set[Scope]] = {
    ("POST", "/v1/events"): {Scope.EVENTS, Scope.FOLLOWS, Scope.ACCOUNTS, Scope.ACTIVITY},
    ("GET", "/v1/events/{id}"): {Scope.EVENTS},
    ("GET", "/v1/system"): {Scope.OPERATE},
    ("GET", "/v1/system/stream"): {Scope.OPERATE},
    ("GET", "/metrics"): {Scope.METRICS},
}
"""A service key with any of these scopes may use the route."""
MATRIX: Mapping[Route, str] = {
    ("POST", "/v1/events"): SERVICE,
    ("GET", "/v1/events/{id}"): SERVICE,
    ("GET", "/v1/inbox"): USER,
    ("GET", "/v1/inbox/unread"): USER,
    ("PUT", "/v1/inbox/seen"): USER,
    ("PUT", "/v1/inbox/marks"): USER,
    ("GET", "/v1/inbox/stream"): USER,
    ("GET", "/v1/subjects/{subject}/bursts"): USER,
    ("GET", "/v1/preferences"): USER,
    ("PATCH", "/v1/preferences"): USER,
    ("PATCH", "/v1/preferences/{subject}"): USER,
    ("GET", "/v1/devices"): USER,
    ("PUT", "/v1/devices"): USER,
    ("POST", "/v1/devices"): USER,
    ("DELETE", "/v1/devices/{id}"): USER,
    ("GET", "/v1/system"): SERVICE,
    ("GET", "/v1/system/stream"): SERVICE,
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("GET", "/static/{path}"): OPEN,
    ("GET", "/metrics"): LOCAL,
}
DEMO_MATRIX: Mapping[Route, str] = {
    ("GET", "/"): LOCAL,
    ("GET", "/demo/people"): VISITOR,
    ("GET", "/demo/phones"): VISITOR,
    ("POST", "/demo/storm"): VISITOR,
    ("POST", "/demo/pause"): VISITOR,
    ("DELETE", "/demo/pause"): VISITOR,
    ("POST", "/demo/kill"): VISITOR,
    ("POST", "/demo/empty"): VISITOR,
}
STREAMS = {route for route in MATRIX if route[1].endswith("/stream")}
"""Streams answer for as long as they are read; their own tests check who may open them."""


def routes(app: Litestar) -> set[Route]:
    paths = set[Route]()
    for route in app.routes:
        assert isinstance(route, HTTPRoute)
        path = route.path_format
        paths |= {(method, path) for method in route.methods if method not in ("OPTIONS", "HEAD")}
    return paths


def callers(api_client: ApiClient) -> Mapping[str, str | None]:
    """Map each kind of caller to its token; only the first two are valid."""
    now = api_client.backend.clock.now()
    claims = {"sub": "u1", "aud": "notifier", "iat": int(now.timestamp()), "exp": int(now.timestamp()) + 900}
    other_keys = InstallationKeys(
        secret="another backend's secret, as long as ours", service_key="another backend's key"
    )
    return {
        USER: api_client.backend.token("u1"),
        SERVICE: SERVICE_KEY,
        "no token": None,
        "expired": issue_token(api_client.backend.keys, UserId("u1"), now - timedelta(hours=1)),
        "of another system": issue_token(other_keys, UserId("u1"), now),
        "another system's service": other_keys.service_key,
        "unsigned": jwt.encode(claims, "", algorithm="none"),
        "for another audience": jwt.encode(claims | {"aud": "tweets"}, SECRET),
        "without a subject": jwt.encode(claims | {"sub": ""}, SECRET),
    }


CALLERS = (
    *(USER, SERVICE, "no token", "expired", "of another system", "another system's service", "unsigned"),
    *("for another audience", "without a subject"),
)


@pytest.fixture
def issuer() -> FakeIssuer:
    return FakeIssuer()


@pytest.fixture
def issuer_client(issuer: FakeIssuer) -> Iterator[ApiClient]:
    """Return a client of a system whose user tokens come from an issuer."""
    backend = MemoryBackend()
    with TestClient(backend.app(authenticator=issuer.authenticator(backend)), raise_server_exceptions=False) as client:
        yield ApiClient(backend, client)


def issued_callers(api_client: ApiClient, issuer: FakeIssuer) -> Mapping[str, str | None]:
    now = int(api_client.backend.clock.now().timestamp())
    return {
        USER: issuer.sign("a"),
        SERVICE: SERVICE_KEY,
        "no token": None,
        "expired": issuer.sign(exp=now - 30),
        "not yet valid": issuer.sign(nbf=now + 31),
        "forged": issuer.sign("a", key=ed(1)),
        "signed with another key of the issuer": issuer.sign("b", key=ed()),
        "unsigned": jwt.encode(VALID_CLAIMS, "", algorithm="none", headers={"kid": "a"}),
        "signed with the public key": signed_with_public_key(pem(rsa()), "b"),
        "for another audience": issuer.sign(aud="tweets"),
        "of another issuer": issuer.sign(iss="https://evil.example"),
        "signed with an unknown key": issuer.sign("c", key=ed()),
        "issued by this system": api_client.backend.token("u1"),
        "without a subject": issuer.sign(sub=""),
    }


ISSUED_CALLERS = (
    *(USER, SERVICE, "no token", "expired", "not yet valid", "forged", "signed with another key of the issuer"),
    *("unsigned", "signed with the public key", "for another audience", "of another issuer"),
    *("signed with an unknown key", "issued by this system", "without a subject"),
)


def status(api_client: ApiClient, route: Route, token: str | None) -> int:
    method, path = route
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    url_path = path.replace("{id}", "1").replace("{path}", "notifier-inbox.js")
    return api_client.http.request(method, url_path, headers=headers, content=b"").status_code


def test_every_route_is_in_the_matrix(api_client: ApiClient) -> None:
    assert routes(api_client.http.app) == set(MATRIX)


def test_every_demo_route_is_in_the_matrix() -> None:
    assert routes(MemoryBackend(Settings(demo="nova")).app()) == {*MATRIX, *DEMO_MATRIX}


@pytest.mark.parametrize("caller", CALLERS)
def test_caller_gets_access_as_in_the_matrix(api_client: ApiClient, caller: str) -> None:
    api_client.post(event())
    token = callers(api_client)[caller]
    for route in MATRIX:
        assert_access(api_client, route, caller, token)


@pytest.mark.parametrize("caller", ISSUED_CALLERS)
def test_issuer_token_opens_only_allowed_routes(issuer_client: ApiClient, issuer: FakeIssuer, caller: str) -> None:
    issuer_client.post(event())
    token = issued_callers(issuer_client, issuer)[caller]
    for route in MATRIX:
        assert_access(issuer_client, route, caller, token)


@pytest.mark.parametrize("scopes", [[scope] for scope in Scope] + [[a, b] for a, b in combinations(Scope, 2)], ids=str)
def test_service_key_opens_only_routes_of_its_scopes(tmp_path: Path, scopes: list[Scope]) -> None:
    backend = MemoryBackend(Settings(data=tmp_path))
    key_file = ServiceKeyFile.of(backend.system.settings, backend.keys)
    key, stored = new_key("a-service", scopes, key_file.pepper, backend.clock.now())
    with key_file.edit() as keys:
        keys.append(stored)
    with TestClient(backend.app(), raise_server_exceptions=False) as client:
        api_client = ApiClient(backend, client)
        api_client.post(event())
        for route, allowed_caller in MATRIX.items():
            if allowed_caller == OPEN or not SCOPES.get(route, set()).isdisjoint(scopes):
                assert route in STREAMS or status(api_client, route, key) not in (401, 403), route
            else:
                assert status(api_client, route, key) == 403, route
            assert status(api_client, route, key + "x") == status(api_client, route, None), route


@pytest.mark.parametrize("authorization", [None, "User u1", "user nova", "User"])
def test_local_address_without_token_opens_only_local_routes(authorization: str | None) -> None:
    """Only --insecure-dev lets a caller in without a token, or by a mere name."""
    with client_from(MemoryBackend(), "127.0.0.1") as local_client:
        for (method, path), allowed_caller in MATRIX.items():
            headers = {} if authorization is None else {"Authorization": authorization}
            url_path = path.replace("{id}", "1").replace("{path}", "notifier-inbox.js")
            status_code = local_client.request(method, url_path, headers=headers).status_code
            assert status_code == (401 if allowed_caller in (USER, SERVICE) else 200), (method, path)


def test_every_route_for_services_has_a_scope() -> None:
    assert SCOPES.keys() == {route for route, allowed_caller in MATRIX.items() if allowed_caller in (SERVICE, LOCAL)}


def assert_access(api_client: ApiClient, route: Route, caller: str, token: str | None) -> None:
    allowed_caller = MATRIX[route]
    if allowed_caller == caller and route in STREAMS:
        return
    status_code = status(api_client, route, token)
    if allowed_caller in (OPEN, caller):
        assert status_code not in (401, 403), route
    elif allowed_caller == LOCAL:  # the test client has no address, so it does not count as local
        assert status_code == (200 if caller == SERVICE else 403 if caller == USER else 401), route
    else:
        assert status_code == (403 if caller in (USER, SERVICE) else 401), route


def test_cursors_tokens_and_ids_of_one_user_are_rejected_for_another(api_client: ApiClient) -> None:
    for _ in range(2):
        api_client.mention()
        api_client.backend.clock.advance(timedelta(minutes=2))
    api_client.backend.deliver()
    own_page = api_client.inbox("u1", limit=1).json()
    assert_problem(api_client.inbox("u2", cursor=own_page["next"]), 400, "bad_cursor")
    assert_problem(api_client.put("/v1/inbox/seen", "u2", {"token": own_page["seen"]}), 400, "bad_seen")
    before = [api_client.unread("u1"), api_client.inbox("u1").json()["items"]]
    body = {"bursts": [own_page["items"][0]["burst"]], "mark": "hidden"}
    assert_problem(api_client.put("/v1/inbox/marks", "u2", body), 400, "bad_mark")
    assert [api_client.unread("u1"), api_client.inbox("u1").json()["items"]] == before
    assert len(api_client.inbox("u2").json()["items"]) == 2
