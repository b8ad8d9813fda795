"""The authorization matrix: every route, by everybody who may come. A route that isn't in it fails it."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import combinations
from pathlib import Path

import jwt
import pytest
from litestar import Litestar
from litestar.routes import HTTPRoute
from litestar.testing import TestClient

from notifier.api.auth.identity import issue
from notifier.api.auth.scopes import Scope
from notifier.api.auth.service_keys import KeyBook, Keys, made
from notifier.config import Settings
from notifier.domain.ids import UserId
from tests.http.neighbour import neighbour
from tests.http.problems import assert_problem
from tests.support.example_event import event
from tests.support.http_app import SECRET, SERVICE_KEY, Edge, House
from tests.support.token_issuer import GOOD, Issuing, ed, pem, rsa, signed_with_public_key

Route = tuple[str, str]
OPEN, PERSON, SERVICE, HERE, VISITOR = "open", "person", "service", "at this machine", "visitor"
SCOPES: Mapping[Route, set[Scope]] = {
    ("POST", "/v1/events"): {Scope.EVENTS, Scope.FOLLOWS, Scope.ACCOUNTS, Scope.ACTIVITY},
    ("GET", "/v1/events/{id}"): {Scope.EVENTS},
    ("GET", "/v1/system"): {Scope.OPERATE},
    ("GET", "/v1/system/stream"): {Scope.OPERATE},
    ("GET", "/metrics"): {Scope.METRICS},
}
"""A service gets in with any of them."""
MATRIX: Mapping[Route, str] = {
    ("POST", "/v1/events"): SERVICE,
    ("GET", "/v1/events/{id}"): SERVICE,
    ("GET", "/v1/inbox"): PERSON,
    ("GET", "/v1/inbox/unread"): PERSON,
    ("PUT", "/v1/inbox/seen"): PERSON,
    ("PUT", "/v1/inbox/marks"): PERSON,
    ("GET", "/v1/inbox/stream"): PERSON,
    ("GET", "/v1/subjects/{subject}/bursts"): PERSON,
    ("GET", "/v1/preferences"): PERSON,
    ("PATCH", "/v1/preferences"): PERSON,
    ("PATCH", "/v1/preferences/{subject}"): PERSON,
    ("GET", "/v1/devices"): PERSON,
    ("PUT", "/v1/devices"): PERSON,
    ("POST", "/v1/devices"): PERSON,
    ("DELETE", "/v1/devices/{id}"): PERSON,
    ("GET", "/v1/system"): SERVICE,
    ("GET", "/v1/system/stream"): SERVICE,
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("GET", "/static/{path}"): OPEN,
    ("GET", "/metrics"): HERE,
}
OF_A_DEMO: Mapping[Route, str] = {
    ("GET", "/"): HERE,
    ("GET", "/demo/people"): VISITOR,
    ("GET", "/demo/phones"): VISITOR,
    ("POST", "/demo/storm"): VISITOR,
    ("POST", "/demo/pause"): VISITOR,
    ("DELETE", "/demo/pause"): VISITOR,
    ("POST", "/demo/kill"): VISITOR,
    ("POST", "/demo/empty"): VISITOR,
}
STREAMS = {route for route in MATRIX if route[1].endswith("/stream")}
"""They answer for as long as they are read: who may is shown by their own tests."""


def routes(app: Litestar) -> set[Route]:
    found = set[Route]()
    for route in app.routes:
        assert isinstance(route, HTTPRoute)
        path = route.path_format
        found |= {(method, path) for method in route.methods if method not in ("OPTIONS", "HEAD")}
    return found


def callers(edge: Edge) -> Mapping[str, str | None]:
    """What each brings; only the first two are anybody."""
    now = edge.house.clock.now()
    claims = {"sub": "u1", "aud": "notifier", "iat": int(now.timestamp()), "exp": int(now.timestamp()) + 900}
    others = Keys(secret="another house's secret, as long as ours", service_key="another house's key")
    return {
        PERSON: edge.house.token("u1"),
        SERVICE: SERVICE_KEY,
        "nobody": None,
        "late": issue(edge.house.keys, UserId("u1"), now - timedelta(hours=1)),
        "of another house": issue(others, UserId("u1"), now),
        "another house's service": others.service_key,
        "unsigned": jwt.encode(claims, "", algorithm="none"),
        "for another audience": jwt.encode(claims | {"aud": "tweets"}, SECRET),
        "who says no name": jwt.encode(claims | {"sub": ""}, SECRET),
    }


CALLERS = (
    *(PERSON, SERVICE, "nobody", "late", "of another house", "another house's service", "unsigned"),
    *("for another audience", "who says no name"),
)


@pytest.fixture
def issuer() -> Issuing:
    return Issuing()


@pytest.fixture
def issued(issuer: Issuing) -> Iterator[Edge]:
    """The edge where people's tokens come from an issuer."""
    house = House()
    with TestClient(house.app(identity=issuer.identity(house)), raise_server_exceptions=False) as client:
        yield Edge(house, client)


def issued_callers(edge: Edge, issuer: Issuing) -> Mapping[str, str | None]:
    now = int(edge.house.clock.now().timestamp())
    return {
        PERSON: issuer.sign("a"),
        SERVICE: SERVICE_KEY,
        "nobody": None,
        "late": issuer.sign(exp=now - 30),
        "early": issuer.sign(nbf=now + 31),
        "forged": issuer.sign("a", key=ed(1)),
        "signed with another key of the issuer": issuer.sign("b", key=ed()),
        "unsigned": jwt.encode(GOOD, "", algorithm="none", headers={"kid": "a"}),
        "signed with the public key": signed_with_public_key(pem(rsa()), "b"),
        "for another audience": issuer.sign(aud="tweets"),
        "of another issuer": issuer.sign(iss="https://evil.example"),
        "by a key that nobody knows": issuer.sign("c", key=ed()),
        "of ours": edge.house.token("u1"),
        "who says no name": issuer.sign(sub=""),
    }


ISSUED_CALLERS = (
    *(PERSON, SERVICE, "nobody", "late", "early", "forged", "signed with another key of the issuer", "unsigned"),
    *("signed with the public key", "for another audience", "of another issuer", "by a key that nobody knows"),
    *("of ours", "who says no name"),
)


def status(edge: Edge, route: Route, brought: str | None) -> int:
    method, path = route
    headers = {} if brought is None else {"Authorization": f"Bearer {brought}"}
    at = path.replace("{id}", "1").replace("{path}", "notifier-inbox.js")
    return edge.client.request(method, at, headers=headers, content=b"").status_code


def test_every_route_is_in_the_matrix(edge: Edge) -> None:
    assert routes(edge.client.app) == set(MATRIX)


def test_every_route_of_a_demo_is_in_the_matrix() -> None:
    assert routes(House(Settings(demo="nova")).app()) == {*MATRIX, *OF_A_DEMO}


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("route", MATRIX, ids=" ".join)
def test_authz_matrix(edge: Edge, route: Route, caller: str) -> None:
    edge.post(event())
    assert_judged(edge, route, caller, callers(edge)[caller])


@pytest.mark.parametrize("caller", ISSUED_CALLERS)
def test_who_has_a_token_of_the_issuer_is_let_in_and_nobody_else(issued: Edge, issuer: Issuing, caller: str) -> None:
    issued.post(event())
    brought = issued_callers(issued, issuer)[caller]
    for route in MATRIX:
        assert_judged(issued, route, caller, brought)


@pytest.mark.parametrize("scopes", [[one] for one in Scope] + [[a, b] for a, b in combinations(Scope, 2)], ids=str)
def test_a_service_key_opens_what_its_scopes_say_and_nothing_else(tmp_path: Path, scopes: list[Scope]) -> None:
    house = House(Settings(data=tmp_path))
    book = KeyBook.of(house.system.settings, house.keys)
    key, kept = made("a-service", scopes, book.pepper, house.clock.now())
    with book.changed() as keys:
        keys.append(kept)
    with TestClient(house.app(), raise_server_exceptions=False) as client:
        edge = Edge(house, client)
        edge.post(event())
        for route, wanted in MATRIX.items():
            if wanted == OPEN or not SCOPES.get(route, set()).isdisjoint(scopes):
                assert route in STREAMS or status(edge, route, key) not in (401, 403), route
            else:
                assert status(edge, route, key) == 403, route
            assert status(edge, route, key + "x") == status(edge, route, None), route


@pytest.mark.parametrize("said", [None, "User u1", "user nova", "User"])
def test_authz_matrix_at_this_machine(said: str | None) -> None:
    """Nothing opens to who brings nothing, or a mere name: that is what --insecure-dev is for."""
    with neighbour(House(), "127.0.0.1") as near:
        for (method, path), wanted in MATRIX.items():
            headers = {} if said is None else {"Authorization": said}
            at = path.replace("{id}", "1").replace("{path}", "notifier-inbox.js")
            found = near.request(method, at, headers=headers).status_code
            assert found == (401 if wanted in (PERSON, SERVICE) else 200), (method, path)


def test_every_route_for_services_has_a_scope() -> None:
    assert SCOPES.keys() == {route for route, wanted in MATRIX.items() if wanted in (SERVICE, HERE)}


def assert_judged(edge: Edge, route: Route, caller: str, brought: str | None) -> None:
    wanted = MATRIX[route]
    if wanted == caller and route in STREAMS:
        return
    found = status(edge, route, brought)
    if wanted in (OPEN, caller):
        assert found not in (401, 403), route
    elif wanted == HERE:  # a test's caller has no address, so he comes from elsewhere
        assert found == (200 if caller == SERVICE else 403 if caller == PERSON else 401), route
    else:
        assert found == (403 if caller in (PERSON, SERVICE) else 401), route


def test_nothing_of_one_s_own_opens_another_s(edge: Edge) -> None:
    """Cursors, seen tokens and items of one person say nothing to anybody in another one's name."""
    for _ in range(2):
        edge.mention()
        edge.house.clock.advance(timedelta(minutes=2))
    edge.house.deliver()
    mine = edge.inbox("u1", limit=1).json()
    assert_problem(edge.inbox("u2", cursor=mine["next"]), 400, "bad_cursor")
    assert_problem(edge.put("/v1/inbox/seen", "u2", {"token": mine["seen"]}), 400, "bad_seen")
    before = [edge.unread("u1"), edge.inbox("u1").json()["items"]]
    others = {"bursts": [mine["items"][0]["burst"]], "mark": "hidden"}
    assert_problem(edge.put("/v1/inbox/marks", "u2", others), 400, "bad_mark")
    assert [edge.unread("u1"), edge.inbox("u1").json()["items"]] == before
    assert len(edge.inbox("u2").json()["items"]) == 2
