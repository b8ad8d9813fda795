"""What operators ask, what is described, and how everything is refused that has no route."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from notifier.api.problems import STATUSES, problem
from notifier.api.routes.system import readiness
from notifier.config import Settings
from notifier.domain import errors
from notifier.domain.delivery.dead_letter_limit import LaneStop, LaneTally, LimitKind
from notifier.domain.errors import CacheUnavailable, NotifierError, StoreUnavailable
from tests.http.problems import assert_problem
from tests.http.remote_client import client_from
from tests.support.example_event import event
from tests.support.fakes.clock import START
from tests.support.http_app import Edge

ROUTES = {
    ("/v1/events", "post"),
    ("/v1/events/{id}", "get"),
    ("/v1/inbox", "get"),
    ("/v1/inbox/unread", "get"),
    ("/v1/inbox/stream", "get"),
    ("/v1/subjects/{subject}/bursts", "get"),
    ("/v1/preferences", "get"),
    ("/v1/preferences", "patch"),
    ("/v1/preferences/{subject}", "patch"),
    ("/v1/devices", "get"),
    ("/v1/devices", "post"),
    ("/v1/devices", "put"),
    ("/v1/devices/{id}", "delete"),
    ("/v1/inbox/seen", "put"),
    ("/v1/inbox/marks", "put"),
    ("/healthz", "get"),
    ("/readyz", "get"),
    ("/metrics", "get"),
    ("/openapi.json", "get"),
    ("/static/{path}", "get"),
    ("/v1/system", "get"),
    ("/v1/system/stream", "get"),
}


def test_it_says_that_it_is_up_whatever_is_broken(edge: Edge) -> None:
    edge.house.broken.store, edge.house.broken.cache = StoreUnavailable(), CacheUnavailable()
    assert (edge.client.get("/healthz").status_code, edge.client.get("/healthz").json()) == (200, {"status": "up"})


def test_it_is_ready_when_the_store_answers(edge: Edge) -> None:
    assert edge.client.get("/readyz").json() == {
        "status": "ready",
        "store": "ok",
        "cache": "ok",
        "activity": "snapshot",
        "stopped_lanes": [],
    }


def test_stopped_lane_is_named_and_the_api_stays_ready(edge: Edge) -> None:
    stop = LaneStop(at=START, who="pump-1", kind=LimitKind.IN_A_ROW, limit=50, record="mentions/0/7", cause="no")
    edge.house.ports.lane_tallies.swap(LaneTally(lane="mentions", version=1, stop=stop))
    response = edge.client.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "ready")
    assert response.json()["stopped_lanes"] == ["mentions"]


def test_without_the_cache_it_is_ready_and_says_so(edge: Edge) -> None:
    edge.house.broken.cache = CacheUnavailable()
    response = edge.client.get("/readyz")
    assert (response.status_code, response.json()["cache"]) == (200, "unavailable")


def test_tiers_are_current_once_a_roll_up_was_told_of_and_a_snapshot_when_it_stays_away(edge: Edge) -> None:
    edge.house.active_hours.rolled_up(edge.house.clock.now(), timedelta(days=1))
    assert edge.client.get("/readyz").json()["activity"] == "ok"
    edge.house.clock.advance(timedelta(minutes=4))
    assert edge.client.get("/readyz").json()["activity"] == "snapshot"


def test_tiers_that_are_held_as_they_were_loaded_say_so(edge: Edge) -> None:
    system = replace(edge.house.system, settings=Settings(roll_up_every=timedelta(0)))
    assert readiness(system).activity == "held"


def test_without_the_store_it_is_not_ready(edge: Edge) -> None:
    edge.house.broken.store = StoreUnavailable()
    assert_problem(edge.client.get("/readyz"), 503, "store_unavailable")


def test_metrics_are_told_to_neighbours(edge: Edge) -> None:
    edge.post(event())
    with client_from(edge.house, "127.0.0.1") as near:
        response = near.get("/metrics")
    assert 'notifier_events_total{status="accepted"} 1.0' in response.text
    assert response.headers.get_list("content-type") == [CONTENT_TYPE_LATEST]


@pytest.mark.parametrize("address", ["10.0.0.7", "::2", "a-name"])
def test_metrics_are_told_to_strangers_who_have_the_service_key(edge: Edge, address: str) -> None:
    with client_from(edge.house, address) as far:
        assert_problem(far.get("/metrics"), 401, "bad_token")
        assert far.get("/metrics", headers=edge.service).status_code == 200


@pytest.mark.parametrize("name", ["evil.example", "evil.example:8080", "10.0.0.7"])
def test_metrics_are_not_told_to_a_page_whose_name_was_pointed_at_this_machine(edge: Edge, name: str) -> None:
    with client_from(edge.house, "127.0.0.1", name) as near:
        assert_problem(near.get("/metrics"), 401, "bad_token")
        assert near.get("/metrics", headers=edge.service).status_code == 200
    with client_from(edge.house, "127.0.0.1", "127.0.0.1:9090") as near:
        assert near.get("/metrics").status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/openapi.json", "/v1/inbox", "/v1/system", "/nowhere", "/metrics"])
def test_no_browser_guesses_what_an_answer_is(edge: Edge, path: str) -> None:
    for headers in ({}, edge.service, edge.bearer("u1")):
        found = edge.client.get(path, headers=headers).headers
        assert found.get_list("x-content-type-options") == ["nosniff"]
        assert found.get_list("content-security-policy") == ["default-src 'none'; frame-ancestors 'none'"]
        assert found.get_list("referrer-policy") == ["no-referrer"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/nothing", "/v1/inbox/x", "/schema", "/openapi", "/%ff", "/v1//x"])
def test_an_unknown_route_is_a_problem(edge: Edge, path: str) -> None:
    assert_problem(edge.client.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/v1/events"), ("GET", "/v1/events"), ("POST", "/v1/inbox"), ("PATCH", "/healthz")]
)
def test_another_method_is_a_problem_that_names_the_right_ones(edge: Edge, method: str, path: str) -> None:
    response = edge.client.request(method, path)
    assert_problem(response, 405, "method_not_allowed")
    assert response.headers["allow"]


def test_every_route_is_described(edge: Edge) -> None:
    document = edge.client.get("/openapi.json").json()
    described = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert described == ROUTES


def test_every_route_that_is_served_is_described(edge: Edge) -> None:
    app = edge.house.app()
    served = {(route.path, method.lower()) for route in app.routes for method in route.methods if method != "OPTIONS"}
    assert {(re.sub(r":\w+}", "}", path), method) for path, method in served} == ROUTES


def test_the_description_is_whole(edge: Edge) -> None:
    document = edge.client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    schemas = document["components"]["schemas"]
    assert {reference.removeprefix("#/components/schemas/") for reference in references(document)} <= schemas.keys()
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["responses"]
            assert all(set(code) <= set("0123456789") for code in operation["responses"])
            assert all(parameter["in"] in ("query", "path", "header") for parameter in operation.get("parameters", ()))


def test_every_refusal_of_a_route_is_described_as_a_problem(edge: Edge) -> None:
    document = edge.client.get("/openapi.json").json()
    for methods in document["paths"].values():
        for operation in methods.values():
            for code, response in operation["responses"].items():
                if int(code) >= 400:
                    assert list(response["content"]) == ["application/problem+json"]


def test_the_three_kinds_of_events_are_described(edge: Edge) -> None:
    document = edge.client.get("/openapi.json").json()
    assert document["paths"]["/v1/events"]["post"]["requestBody"]["content"].keys() == {
        "application/cloudevents+json",
        "application/json",
        "application/cloudevents-batch+json",
    }


def test_every_error_has_a_status_and_a_code_of_its_own() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, NotifierError)]
    problems = [problem(kind()) for kind in kinds]
    assert len({one.code for one in problems}) == len(kinds)
    assert {one.status for one in problems} <= set(STATUSES.values())


def references(part: object) -> Iterator[str]:
    match part:
        case {"$ref": str(found)}:
            yield found
        case dict():
            for value in part.values():
                yield from references(value)
        case list():
            for value in part:
                yield from references(value)
