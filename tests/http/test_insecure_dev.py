"""`--insecure-dev`: a developer's curl gets in without a key, from this machine alone, and nothing else changes."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from litestar.testing import TestClient

from notifier.config import Settings
from notifier.domain.errors import BadSetting
from tests.http.problems import assert_problem
from tests.http.remote_client import client_from
from tests.http.test_authorization import MATRIX, OPEN, PERSON, SERVICE, STREAMS
from tests.support.example_event import event
from tests.support.http_app import SERVICE_KEY, Edge, House

INSECURE = Settings(insecure_dev=True)
ADA: Mapping[str, str] = {"Authorization": "User u1"}

ELSEWHERE: list[tuple[str, str, Mapping[str, str]]] = [
    ("10.0.0.7", "127.0.0.1:8080", {}),
    ("127.0.0.1", "evil.example", {}),
    ("127.0.0.1", "127.0.0.1:8080", {"Origin": "https://evil.example"}),
    ("127.0.0.1", "127.0.0.1:8080", {"Origin": "null"}),
]
"""An address of elsewhere, a name that was pointed here, and pages of elsewhere in a browser that runs here."""


@pytest.fixture
def here() -> Iterator[Edge]:
    house = House(INSECURE)
    with client_from(house, "127.0.0.1") as client:
        yield Edge(house, client)


def ask(client: TestClient[Any], method: str, path: str, headers: Mapping[str, str]) -> int:
    at = path.replace("{id}", "1").replace("{path}", "notifier-inbox.js")
    return client.request(method, at, headers=headers).status_code


def test_a_service_needs_no_key_and_a_person_only_a_name(here: Edge) -> None:
    kind = {"Content-Type": "application/cloudevents+json"}
    assert here.client.post("/v1/events", json=event(), headers=kind).status_code == 202
    here.house.sequence()
    assert here.client.get("/v1/events/1").json()["id"] == "1"
    page = here.client.get("/v1/inbox", headers=ADA)
    assert len(page.json()["items"]) == 1
    assert here.client.put("/v1/inbox/seen", json={"token": page.json()["seen"]}, headers=ADA).status_code == 204
    volume = {"volume": "off"}
    assert here.client.patch("/v1/preferences/mention:nova", json=volume, headers=ADA).json()["volume"] == "off"


def test_every_route_is_as_open_as_it_is_to_who_may(here: Edge) -> None:
    for (method, path), wanted in MATRIX.items():
        if (method, path) in STREAMS:
            continue
        nobody, ada = (ask(here.client, method, path, headers) for headers in ({}, ADA))
        assert (nobody == 401) is (wanted == PERSON), path
        assert (ada == 403) is (wanted == SERVICE), path


@pytest.mark.parametrize(("address", "name", "headers"), ELSEWHERE, ids=range(len(ELSEWHERE)))
def test_nobody_from_elsewhere_is_let_in(address: str, name: str, headers: Mapping[str, str]) -> None:
    with client_from(House(INSECURE), address, name) as client:
        for (method, path), wanted in MATRIX.items():
            if wanted in (PERSON, SERVICE):
                assert ask(client, method, path, headers) == 401, path
                assert ask(client, method, path, {**headers, **ADA}) == 401, path
            elif wanted == OPEN:
                assert ask(client, method, path, headers) == 200, path


def test_keys_and_tokens_count_as_before(here: Edge) -> None:
    assert here.inbox("u1").status_code == 200
    assert here.post(event()).status_code == 202
    for wrong in ("Bearer x", "Bearer", "Basic dTE6dTE="):
        for method, path in (("GET", "/v1/inbox"), ("GET", "/v1/system")):
            assert ask(here.client, method, path, {"Authorization": wrong}) == 401
    key = {"Authorization": f"Bearer {SERVICE_KEY}"}
    assert_problem(here.client.get("/v1/inbox", headers=key), 403, "forbidden")


@pytest.mark.parametrize(("said", "status"), [("User", 401), ("User " + "x" * 257, 401), ("User nobody", 404)])
def test_a_name_is_one_of_somebody(here: Edge, said: str, status: int) -> None:
    assert here.client.get("/v1/inbox", headers={"Authorization": said}).status_code == status


def test_whoever_asks_whether_it_is_ready_is_told(here: Edge, edge: Edge) -> None:
    assert here.client.get("/readyz").json()["insecure_dev"] is True
    assert "insecure_dev" not in edge.client.get("/readyz").json()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "notifier.example"])
def test_it_listens_on_a_loopback_address_alone(host: str) -> None:
    with pytest.raises(BadSetting, match="NOTIFIER_INSECURE_DEV is for a loopback address alone"):
        Settings.read({"NOTIFIER_INSECURE_DEV": "true", "NOTIFIER_HOST": host})


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_has_several_names(host: str) -> None:
    assert Settings.read({"NOTIFIER_INSECURE_DEV": "1", "NOTIFIER_HOST": host}).insecure_dev


def test_an_issuer_is_not_undone_by_it() -> None:
    issuer = {"NOTIFIER_ISSUER_NAME": "x", "NOTIFIER_ISSUER_KEY": "file"}
    with pytest.raises(BadSetting, match="take NOTIFIER_ISSUER_NAME away for it"):
        Settings.read({"NOTIFIER_INSECURE_DEV": "true", **issuer})
