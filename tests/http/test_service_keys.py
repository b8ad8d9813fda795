"""Service keys grant what their scopes allow; changes take effect within a second."""

import json
import logging
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from litestar.testing import TestClient

from notifier.api.auth.authenticators import build_authenticator
from notifier.api.auth.service_and_installation_keys import (
    CHECK_SECONDS,
    SERVICE_KEYS_FILE,
    InstallationKeys,
    Scope,
    ServiceKeyCache,
    ServiceKeyFile,
    new_key,
)
from notifier.config import Settings
from notifier.domain.errors import BadSetting
from notifier.domain.upstream.validation import (
    BLOCKED_TYPE,
    CHANGED_TYPE,
    FOLLOW_APPROVED_TYPE,
    FOLLOWED_TYPE,
    MENTIONED_TYPE,
    SEEN_TYPE,
    UNBLOCKED_TYPE,
)
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import ApiClient, MemoryBackend

ONE, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"


@dataclass(slots=True)
class FakeClock:
    """Clock of the process's key cache, in seconds."""

    second: float = 0.0


@dataclass(frozen=True, slots=True)
class KeyedApi:
    api_client: ApiClient
    key_file: ServiceKeyFile
    clock: FakeClock

    def add(self, name: str, *scopes: Scope) -> str:
        """Add a key that is valid from the next request on."""
        key, stored = new_key(name, scopes, self.key_file.pepper, START)
        with self.key_file.edit() as keys:
            keys.append(stored)
        self.reload_keys()
        return key

    def reload_keys(self) -> None:
        """Let every process reload the key file."""
        self.clock.second += CHECK_SECONDS

    def post(self, key: str, *events: object, dry_run: bool = False) -> httpx.Response:
        content, kind = (list(events), BATCH) if len(events) > 1 else (events[0], ONE)
        path = "/v1/events?dry_run=true" if dry_run else "/v1/events"
        headers = {"Authorization": f"Bearer {key}", "Content-Type": kind}
        return self.api_client.http.post(path, content=json.dumps(content), headers=headers)

    def get(self, key: str, path: str) -> httpx.Response:
        return self.api_client.http.get(path, headers={"Authorization": f"Bearer {key}"})


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KeyedApi]:
    backend, clock = MemoryBackend(Settings(data=tmp_path)), FakeClock()
    local_authenticator = build_authenticator(backend.system.settings, backend.keys, backend.system.metrics)
    authenticator = replace(
        local_authenticator,
        service_keys=ServiceKeyCache(local_authenticator.service_keys.key_file, lambda: clock.second),
    )
    with TestClient(backend.app(authenticator=authenticator), raise_server_exceptions=False) as client:
        yield KeyedApi(ApiClient(backend, client), authenticator.service_keys.key_file, clock)


def follow(id: str = "f1") -> dict[str, object]:
    data = {"follower": "u1", "followed": "nova", "sequence": 7}
    return {**event(id), "type": FOLLOWED_TYPE, "data": data}


def block(id: str = "b1", type: str = BLOCKED_TYPE) -> dict[str, object]:
    return {**event(id), "type": type, "data": {"blocker": "u1", "blocked": "nova", "sequence": 7}}


def account(id: str = "a1", **flags: bool) -> dict[str, object]:
    return {**event(id), "type": CHANGED_TYPE, "data": {"user": "nova", "sequence": 7, **(flags or {"vip": True})}}


def sighting(id: str = "s1") -> dict[str, object]:
    return {**event(id), "type": SEEN_TYPE, "data": {"user": "u1"}}


def test_key_grants_what_its_scope_allows(api: KeyedApi) -> None:
    tweets, graph = api.add("tweets", Scope.EVENTS), api.add("graph", Scope.FOLLOWS)
    assert [api.post(tweets, event()).status_code, api.post(graph, follow()).status_code] == [202, 202]
    assert api.get(tweets, "/v1/events/1").status_code == 200
    assert api.post(tweets, event("2"), dry_run=True).status_code == 200
    approved = {**follow("f3"), "type": FOLLOW_APPROVED_TYPE}
    assert api.post(graph, block(), block("b2", UNBLOCKED_TYPE), approved).status_code == 202
    accounts = api.add("accounts", Scope.ACCOUNTS)
    assert api.post(accounts, account()).status_code == 202
    assert api.post(api.add("logins", Scope.ACTIVITY), sighting()).status_code == 202
    both = api.add("both", Scope.EVENTS, Scope.FOLLOWS)
    assert api.post(both, event("3"), follow("f2")).status_code == 202


def test_key_without_the_scope_is_refused_and_told_which_is_missing(api: KeyedApi) -> None:
    tweets, graph = api.add("tweets", Scope.EVENTS), api.add("graph", Scope.FOLLOWS)
    for key, response, scope in (
        (tweets, api.post(tweets, follow()), "follows"),
        (tweets, api.post(tweets, event(), follow()), "follows"),
        (tweets, api.post(tweets, block()), "follows"),
        (tweets, api.post(tweets, event(), block("b2", UNBLOCKED_TYPE)), "follows"),
        (tweets, api.post(tweets, {**follow(), "type": FOLLOW_APPROVED_TYPE}), "follows"),
        (tweets, api.post(tweets, follow(), dry_run=True), "follows"),
        (tweets, api.get(tweets, "/v1/system"), "operate"),
        (tweets, api.get(tweets, "/metrics"), "read-metrics"),
        (graph, api.post(graph, event()), "events"),
        (graph, api.post(graph, event(), event("2")), "events"),
        (graph, api.post(graph, event(), dry_run=True), "events"),
        (graph, api.get(graph, "/v1/events/1"), "events"),
        (graph, api.post(graph, account()), "accounts"),
        (graph, api.post(graph, follow(), account()), "accounts"),
        (graph, api.post(graph, follow(), sighting()), "activity"),
    ):
        detail = assert_problem(response, 403, "forbidden")["detail"]
        assert f"lacks the scope {scope}; it has" in detail
        assert key not in response.text
    assert api.api_client.get_event("1").status_code == 404


def test_missing_scope_is_reported_before_an_invalid_event(api: KeyedApi) -> None:
    """Whether an event is from the future depends on when it is read; its type doesn't."""
    tweets = api.add("tweets", Scope.EVENTS)
    tomorrow = {**follow(), "time": (START + timedelta(days=1)).isoformat()}
    assert api.post(tweets, tomorrow).status_code == 403
    for types in ([MENTIONED_TYPE, FOLLOWED_TYPE], [FOLLOWED_TYPE, MENTIONED_TYPE]):
        type_fields = ", ".join(f'"type": "{type_}"' for type_ in types)
        body = json.dumps(follow()).replace(f'"type": "{FOLLOWED_TYPE}"', type_fields)
        headers = {"Authorization": f"Bearer {tweets}", "Content-Type": ONE}
        assert api.api_client.http.post("/v1/events", content=body, headers=headers).status_code in (400, 403)


def test_malformed_event_is_refused_as_such(api: KeyedApi) -> None:
    tweets = api.add("tweets", Scope.EVENTS)
    assert_problem(api.post(tweets, {"type": "another"}), 400, "bad_event")
    assert [result["status"] for result in api.post(tweets, event(), {}).json()["results"]] == ["accepted", "refused"]


def test_key_rotation_never_leaves_a_service_without_a_key(api: KeyedApi) -> None:
    old = api.add("tweets", Scope.EVENTS)
    new = api.add("tweets", Scope.EVENTS)
    assert [api.post(key, event(key[-4:])).status_code for key in (old, new)] == [202, 202]
    with api.key_file.edit() as keys:
        del keys[0]
    assert api.post(old, event("2")).status_code == 202
    api.reload_keys()
    assert [api.post(key, event("3")).status_code for key in (old, new)] == [401, 202]


def test_service_key_opens_no_inbox(api: KeyedApi) -> None:
    key = api.add("all", *Scope)
    assert_problem(api.get(key, "/v1/inbox"), 403, "forbidden")


def test_unreadable_key_file_keeps_the_keys_and_a_missing_one_revokes_them(
    api: KeyedApi, caplog: pytest.LogCaptureFixture
) -> None:
    key = api.add("tweets", Scope.EVENTS)
    good = api.key_file.path.read_bytes()
    assert api.post(key, event()).status_code == 202
    api.key_file.path.write_bytes(good[:-20])
    api.reload_keys()
    assert api.post(key, event("2")).status_code == 202
    assert [record.levelno for record in caplog.records if "service keys" in record.message] == [logging.ERROR]
    with pytest.raises(BadSetting):
        MemoryBackend(api.api_client.backend.system.settings).app()
    api.key_file.path.unlink()
    api.reload_keys()
    assert api.post(key, event("3")).status_code == 401


def test_keys_are_neither_stored_nor_logged_in_clear_text(api: KeyedApi, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = api.add("tweets", Scope.EVENTS)
    responses = [api.post(key, event()), api.get(key, "/v1/system"), api.get(key + "x", "/v1/system")]
    assert [response.status_code for response in responses] == [202, 403, 401]
    texts = [api.key_file.path.read_text(), caplog.text, repr(api.key_file), *(response.text for response in responses)]
    assert not any(key in text for text in texts)
    assert api.key_file.pepper.hex() not in api.key_file.path.read_text()
    assert stat.S_IMODE(api.key_file.path.stat().st_mode) == 0o600


def test_key_file_of_another_system_grants_nothing(api: KeyedApi, tmp_path: Path) -> None:
    """An attacker who can write the key file, but doesn't have the secret, can create no valid key."""
    other_keys = InstallationKeys(secret="another secret that is long enough", service_key="k")
    key, stored = new_key("tweets", list(Scope), ServiceKeyFile.of(Settings(data=tmp_path), other_keys).pepper, START)
    with api.key_file.edit() as keys:
        keys.append(stored)
    api.reload_keys()
    assert api.post(key, event()).status_code == 401


def test_concurrent_changes_of_the_key_file_are_all_kept(tmp_path: Path) -> None:
    key_file = ServiceKeyFile(path=tmp_path / SERVICE_KEYS_FILE, pepper=b"pepper")

    def add(number: int) -> None:
        with key_file.edit() as keys:
            keys.append(new_key(f"service-{number}", [Scope.EVENTS], key_file.pepper, START)[1])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(40)))
    assert {key.name for key in key_file.read()} == {f"service-{number}" for number in range(40)}
    assert {path.name for path in tmp_path.iterdir()} == {SERVICE_KEYS_FILE, f".{SERVICE_KEYS_FILE}.lock"}


def test_failed_change_leaves_the_key_file_unchanged(tmp_path: Path) -> None:
    key_file = ServiceKeyFile(path=tmp_path / SERVICE_KEYS_FILE, pepper=b"pepper")

    def fail() -> None:
        with key_file.edit() as keys:
            keys.append(new_key("a", [Scope.EVENTS], key_file.pepper, START)[1])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert key_file.read() == ()
