"""Health, readiness, metrics, security headers, the OpenAPI document and unknown routes."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from notifier.api.problems import STATUSES, problem_body
from notifier.api.routes.system import readiness
from notifier.config import Settings
from notifier.domain import errors
from notifier.domain.delivery.dead_letter_limit import DeadLetterTally, LaneStop, LimitKind
from notifier.domain.errors import CacheUnavailable, NotifierError, StoreUnavailable
from tests.http.client_from_address import client_from
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import ApiClient

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


def test_health_is_up_without_store_and_cache(api_client: ApiClient) -> None:
    api_client.backend.port_errors.store, api_client.backend.port_errors.cache = StoreUnavailable(), CacheUnavailable()
    assert (api_client.http.get("/healthz").status_code, api_client.http.get("/healthz").json()) == (
        200,
        {"status": "up"},
    )


def test_api_is_ready_when_the_store_answers(api_client: ApiClient) -> None:
    assert api_client.http.get("/readyz").json() == {
        "status": "ready",
        "store": "ok",
        "cache": "ok",
        "activity": "snapshot",
        "stopped_lanes": [],
    }


def test_stopped_lane_is_named_and_the_api_stays_ready(api_client: ApiClient) -> None:
    stop = LaneStop(at=START, stopped_by="pump-1", kind=LimitKind.IN_A_ROW, limit=50, record="mentions/0/7", cause="no")
    api_client.backend.ports.lane_tallies.compare_and_set(DeadLetterTally(lane="mentions", version=1, stop=stop))
    response = api_client.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "ready")
    assert response.json()["stopped_lanes"] == ["mentions"]


def test_readiness_reports_a_cache_outage(api_client: ApiClient) -> None:
    api_client.backend.port_errors.cache = CacheUnavailable()
    response = api_client.http.get("/readyz")
    assert (response.status_code, response.json()["cache"]) == (200, "unavailable")


def test_readiness_reports_how_current_activity_is(api_client: ApiClient) -> None:
    api_client.backend.active_hours.record_roll_up(api_client.backend.clock.now(), timedelta(days=1))
    assert api_client.http.get("/readyz").json()["activity"] == "ok"
    api_client.backend.clock.advance(timedelta(minutes=4))
    assert api_client.http.get("/readyz").json()["activity"] == "snapshot"


def test_readiness_reports_activity_off_without_roll_ups(api_client: ApiClient) -> None:
    system = replace(api_client.backend.system, settings=Settings(roll_up_every=timedelta(0)))
    assert readiness(system).activity == "off"


def test_api_is_not_ready_without_the_store(api_client: ApiClient) -> None:
    api_client.backend.port_errors.store = StoreUnavailable()
    assert_problem(api_client.http.get("/readyz"), 503, "store_unavailable")


def test_metrics_are_open_to_local_callers(api_client: ApiClient) -> None:
    api_client.post(event())
    with client_from(api_client.backend, "127.0.0.1") as local_client:
        response = local_client.get("/metrics")
    assert 'notifier_events_total{status="accepted"} 1.0' in response.text
    assert response.headers.get_list("content-type") == [CONTENT_TYPE_LATEST]


@pytest.mark.parametrize("address", ["10.0.0.7", "::2", "a-name"])
def test_metrics_need_the_service_key_from_other_addresses(api_client: ApiClient, address: str) -> None:
    with client_from(api_client.backend, address) as remote_client:
        assert_problem(remote_client.get("/metrics"), 401, "bad_token")
        assert remote_client.get("/metrics", headers=api_client.service).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "10.0.0.7"])
def test_metrics_need_the_service_key_for_foreign_host_names(api_client: ApiClient, host: str) -> None:
    with client_from(api_client.backend, "127.0.0.1", host) as local_client:
        assert_problem(local_client.get("/metrics"), 401, "bad_token")
        assert local_client.get("/metrics", headers=api_client.service).status_code == 200
    with client_from(api_client.backend, "127.0.0.1", "127.0.0.1:9090") as local_client:
        assert local_client.get("/metrics").status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/openapi.json", "/v1/inbox", "/v1/system", "/nowhere", "/metrics"])
def test_security_headers_are_on_every_response(api_client: ApiClient, path: str) -> None:
    for headers in ({}, api_client.service, api_client.bearer("u1")):
        headers_ = api_client.http.get(path, headers=headers).headers
        assert headers_.get_list("x-content-type-options") == ["nosniff"]
        assert headers_.get_list("content-security-policy") == ["default-src 'none'; frame-ancestors 'none'"]
        assert headers_.get_list("referrer-policy") == ["no-referrer"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/nothing", "/v1/inbox/x", "/schema", "/openapi", "/%ff", "/v1//x"])
def test_unknown_route_is_a_problem(api_client: ApiClient, path: str) -> None:
    assert_problem(api_client.http.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/v1/events"), ("GET", "/v1/events"), ("POST", "/v1/inbox"), ("PATCH", "/healthz")]
)
def test_wrong_method_is_a_problem_that_lists_the_allowed_ones(api_client: ApiClient, method: str, path: str) -> None:
    response = api_client.http.request(method, path)
    assert_problem(response, 405, "method_not_allowed")
    assert response.headers["allow"]


def test_openapi_describes_every_known_route(api_client: ApiClient) -> None:
    document = api_client.http.get("/openapi.json").json()
    described = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert described == ROUTES


def test_served_routes_are_the_known_ones(api_client: ApiClient) -> None:
    app = api_client.backend.app()
    served = {(route.path, method.lower()) for route in app.routes for method in route.methods if method != "OPTIONS"}
    assert {(re.sub(r":\w+}", "}", path), method) for path, method in served} == ROUTES


def test_openapi_document_is_complete(api_client: ApiClient) -> None:
    document = api_client.http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    schemas = document["components"]["schemas"]
    assert {reference.removeprefix("#/components/schemas/") for reference in references(document)} <= schemas.keys()
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["responses"]
            assert all(set(code) <= set("0123456789") for code in operation["responses"])
            assert all(parameter["in"] in ("query", "path", "header") for parameter in operation.get("parameters", ()))


def test_openapi_describes_every_refusal_as_a_problem(api_client: ApiClient) -> None:
    document = api_client.http.get("/openapi.json").json()
    for methods in document["paths"].values():
        for operation in methods.values():
            for code, response in operation["responses"].items():
                if int(code) >= 400:
                    assert list(response["content"]) == ["application/problem+json"]


def test_openapi_describes_three_content_types_of_events(api_client: ApiClient) -> None:
    document = api_client.http.get("/openapi.json").json()
    assert document["paths"]["/v1/events"]["post"]["requestBody"]["content"].keys() == {
        "application/cloudevents+json",
        "application/json",
        "application/cloudevents-batch+json",
    }


def test_every_error_has_its_own_status_and_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, NotifierError)]
    problems = [problem_body(kind()) for kind in kinds]
    assert len({problem_.code for problem_ in problems}) == len(kinds)
    assert {problem_.status for problem_ in problems} <= set(STATUSES.values())


def references(node: object) -> Iterator[str]:
    match node:
        case {"$ref": str(reference)}:
            yield reference
        case dict():
            for value in node.values():
                yield from references(value)
        case list():
            for value in node:
                yield from references(value)
