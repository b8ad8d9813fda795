"""`--insecure-dev` lets local callers in without a key, and changes nothing else."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from litestar.testing import TestClient

from notifier.config import Settings
from notifier.domain.errors import BadSetting
from tests.http.client_from_address import client_from
from tests.http.error_response_checks import assert_problem
from tests.http.test_authorization import MATRIX, OPEN, SERVICE, STREAMS, USER
from tests.support.example_event_and_acceptance import event
from tests.support.in_memory_http_api import SERVICE_KEY, ApiClient, MemoryBackend

INSECURE = Settings(insecure_dev=True)
USER_U1: Mapping[str, str] = {"Authorization": "User u1"}

REMOTE_CALLERS: list[tuple[str, str, Mapping[str, str]]] = [
    ("10.0.0.7", "127.0.0.1:8080", {}),
    ("127.0.0.1", "evil.example", {}),
    ("127.0.0.1", "127.0.0.1:8080", {"Origin": "https://evil.example"}),
    ("127.0.0.1", "127.0.0.1:8080", {"Origin": "null"}),
]
"""A remote address, a foreign host name that resolves here, and pages of other origins in a local browser."""


@pytest.fixture
def local_client() -> Iterator[ApiClient]:
    backend = MemoryBackend(INSECURE)
    with client_from(backend, "127.0.0.1") as client:
        yield ApiClient(backend, client)


def status(client: TestClient[Any], method: str, path: str, headers: Mapping[str, str]) -> int:
    url_path = path.replace("{id}", "1").replace("{path}", "notifier-inbox.js")
    return client.request(method, url_path, headers=headers).status_code


def test_service_needs_no_key_and_user_only_a_name(local_client: ApiClient) -> None:
    kind = {"Content-Type": "application/cloudevents+json"}
    assert local_client.http.post("/v1/events", json=event(), headers=kind).status_code == 202
    local_client.backend.sequence()
    assert local_client.http.get("/v1/events/1").json()["id"] == "1"
    page = local_client.http.get("/v1/inbox", headers=USER_U1)
    assert len(page.json()["items"]) == 1
    assert (
        local_client.http.put("/v1/inbox/seen", json={"token": page.json()["seen"]}, headers=USER_U1).status_code == 204
    )
    volume = {"volume": "off"}
    assert (
        local_client.http.patch("/v1/preferences/mention:nova", json=volume, headers=USER_U1).json()["volume"] == "off"
    )


def test_routes_still_separate_users_and_services(local_client: ApiClient) -> None:
    for (method, path), allowed_caller in MATRIX.items():
        if (method, path) in STREAMS:
            continue
        anonymous_status, user_status = (status(local_client.http, method, path, headers) for headers in ({}, USER_U1))
        assert (anonymous_status == 401) is (allowed_caller == USER), path
        assert (user_status == 403) is (allowed_caller == SERVICE), path


@pytest.mark.parametrize(("address", "host", "headers"), REMOTE_CALLERS, ids=range(len(REMOTE_CALLERS)))
def test_remote_caller_is_refused(address: str, host: str, headers: Mapping[str, str]) -> None:
    with client_from(MemoryBackend(INSECURE), address, host) as client:
        for (method, path), allowed_caller in MATRIX.items():
            if allowed_caller in (USER, SERVICE):
                assert status(client, method, path, headers) == 401, path
                assert status(client, method, path, {**headers, **USER_U1}) == 401, path
            elif allowed_caller == OPEN:
                assert status(client, method, path, headers) == 200, path


def test_keys_and_tokens_are_still_checked(local_client: ApiClient) -> None:
    assert local_client.inbox("u1").status_code == 200
    assert local_client.post(event()).status_code == 202
    for wrong in ("Bearer x", "Bearer", "Basic dTE6dTE="):
        for method, path in (("GET", "/v1/inbox"), ("GET", "/v1/system")):
            assert status(local_client.http, method, path, {"Authorization": wrong}) == 401
    key = {"Authorization": f"Bearer {SERVICE_KEY}"}
    assert_problem(local_client.http.get("/v1/inbox", headers=key), 403, "forbidden")


@pytest.mark.parametrize(
    ("authorization", "expected"), [("User", 401), ("User " + "x" * 257, 401), ("User nobody", 404)]
)
def test_user_name_must_be_valid(local_client: ApiClient, authorization: str, expected: int) -> None:
    assert local_client.http.get("/v1/inbox", headers={"Authorization": authorization}).status_code == expected


def test_readiness_reports_insecure_dev(local_client: ApiClient, api_client: ApiClient) -> None:
    assert local_client.http.get("/readyz").json()["insecure_dev"] is True
    assert "insecure_dev" not in api_client.http.get("/readyz").json()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "notifier.example"])
def test_insecure_dev_requires_a_loopback_address(host: str) -> None:
    with pytest.raises(BadSetting, match="NOTIFIER_INSECURE_DEV requires a loopback host"):
        Settings.read({"NOTIFIER_INSECURE_DEV": "true", "NOTIFIER_HOST": host})


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_host_names_are_accepted(host: str) -> None:
    assert Settings.read({"NOTIFIER_INSECURE_DEV": "1", "NOTIFIER_HOST": host}).insecure_dev


def test_insecure_dev_with_an_issuer_is_refused() -> None:
    issuer = {"NOTIFIER_ISSUER_NAME": "x", "NOTIFIER_ISSUER_KEY": "file"}
    with pytest.raises(BadSetting, match="remove NOTIFIER_ISSUER_NAME"):
        Settings.read({"NOTIFIER_INSECURE_DEV": "true", **issuer})
