"""Authentication with our own tokens and service keys."""

import json
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from notifier.api.auth.authenticators import issue_token
from notifier.api.auth.service_and_installation_keys import SECRETS_FILE as FILE
from notifier.api.auth.service_and_installation_keys import InstallationKeys, installation_keys, load_or_create_keys
from notifier.config import Settings
from notifier.domain.errors import BadSetting
from notifier.domain.ids import UserId
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import SECRET, SERVICE_KEY, ApiClient

NOW = int(START.timestamp())
GOOD = {"sub": "u1", "aud": "notifier", "iat": NOW, "exp": NOW + 900}
INBOX = "/v1/inbox"


def test_token_grants_access_to_own_inbox(api_client: ApiClient) -> None:
    assert inbox_status(api_client, jwt.encode(GOOD, SECRET)) == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW - 30},
        {"iat": NOW + 31},
        {"nbf": NOW + 31},
        {"aud": "another"},
        {"aud": ["notifier", "another"]},
        {"sub": ""},
        {"sub": "x" * 257},
        {"sub": "u\x001"},
        {"sub": 7},
        {"exp": None},
        {"exp": "never"},
        {"exp": 10**400},
        {"exp": 1e308},
        {"iat": None},
        {"aud": None},
        {"sub": None},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_token_with_a_bad_claim_is_refused(api_client: ApiClient, changes: dict[str, Any]) -> None:
    claims = {key: value for key, value in (GOOD | changes).items() if value is not None}
    response = get_inbox(api_client, f"Bearer {forge(claims)}")
    assert_problem(response, 401, "bad_token")
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("changes", [{"exp": NOW - 29}, {"iat": NOW + 30}])
def test_clock_difference_of_half_a_minute_is_tolerated(api_client: ApiClient, changes: dict[str, int]) -> None:
    assert inbox_status(api_client, forge(GOOD | changes)) == 200


def test_forged_token_is_refused(api_client: ApiClient) -> None:
    good = forge(GOOD)
    tampered = forge(GOOD | {"sub": "u2"})
    for token in (
        forge(GOOD, key="another secret that is long enough, too"),
        forge(GOOD, algorithm="HS384", key=SECRET * 2),
        jwt.encode(GOOD, "", algorithm="none"),
        ".".join([good.split(".")[0], tampered.split(".")[1], good.split(".")[2]]),
        good[:-1],
        good + ".x",
        "a.b.c",
        "x",
    ):
        assert_problem(get_inbox(api_client, f"Bearer {token}"), 401, "bad_token")


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic dTE6dTE=", "Bearer \xfc\xfc"])
def test_request_without_a_token_is_refused(api_client: ApiClient, header: str | None) -> None:
    assert_problem(get_inbox(api_client, header), 401, "bad_token")


def test_token_expires_after_a_quarter_of_an_hour(api_client: ApiClient) -> None:
    token = api_client.backend.token("u1")
    api_client.backend.clock.advance(timedelta(minutes=15, seconds=29))
    assert inbox_status(api_client, token) == 200
    api_client.backend.clock.advance(timedelta(seconds=1))
    assert inbox_status(api_client, token) == 401


def test_service_key_opens_no_inbox_and_user_token_sends_no_event(api_client: ApiClient) -> None:
    assert_problem(get_inbox(api_client, f"Bearer {SERVICE_KEY}"), 403, "forbidden")
    for response in (
        api_client.http.post("/v1/events", json=event(), headers=api_client.bearer("u1")),
        api_client.http.get("/v1/events/1", headers=api_client.bearer("u1")),
    ):
        assert_problem(response, 403, "forbidden")


@pytest.mark.parametrize("key", [SERVICE_KEY[:-1], SERVICE_KEY + "x", SERVICE_KEY.upper()])
def test_wrong_service_key_is_refused(api_client: ApiClient, key: str) -> None:
    response = api_client.http.post("/v1/events", json=event(), headers={"Authorization": f"Bearer {key}"})
    assert_problem(response, 401, "bad_token")


def test_unauthenticated_request_is_refused_before_its_body_is_parsed(api_client: ApiClient) -> None:
    for method, path in (("POST", "/v1/events"), ("PUT", "/v1/inbox/seen"), ("PUT", "/v1/inbox/marks")):
        response = api_client.http.request(method, path, content=b"{" * 5_000_000)
        assert_problem(response, 401, "bad_token")


def test_secrets_are_in_no_refusal_and_no_repr(api_client: ApiClient) -> None:
    token = forge(GOOD | {"exp": NOW - 60})
    for response in (get_inbox(api_client, f"Bearer {token}"), get_inbox(api_client, f"Bearer {SERVICE_KEY}")):
        assert not any(secret in response.text for secret in (SECRET, SERVICE_KEY, token))
    assert repr(api_client.backend.keys) == "InstallationKeys()"


def test_keys_are_created_once_and_readable_only_by_the_owner(tmp_path: Path) -> None:
    keys = load_or_create_keys(tmp_path / "data")
    assert load_or_create_keys(tmp_path / "data") == keys
    assert keys != load_or_create_keys(tmp_path / "other")
    assert stat.S_IMODE((tmp_path / "data" / FILE).stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "data").iterdir()] == [FILE]


@pytest.mark.parametrize("text", ["", "{", "{}", '{"secret": "too short", "service_key": "k"}'])
def test_broken_key_file_is_neither_replaced_nor_quoted(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(BadSetting) as caught:
        load_or_create_keys(tmp_path)
    assert "too short" not in str(caught.value)
    assert (tmp_path / FILE).read_text() == text


def test_secret_in_the_settings_overrides_the_file(tmp_path: Path) -> None:
    keys = installation_keys(Settings(data=tmp_path, secret=SECRET))
    assert keys == installation_keys(Settings(data=tmp_path / "other", secret=SECRET))
    assert (keys.secret, list(tmp_path.iterdir())) == (SECRET, [])
    assert keys.service_key not in (SECRET, "")


def test_short_secret_is_refused() -> None:
    with pytest.raises(BadSetting):
        installation_keys(Settings(secret="short"))


def test_issued_token_is_valid_for_its_user(api_client: ApiClient) -> None:
    keys = InstallationKeys(secret=SECRET, service_key=SERVICE_KEY)
    assert inbox_status(api_client, issue_token(keys, UserId("u1"), START)) == 200
    assert inbox_status(api_client, issue_token(keys, UserId("nobody"), START)) == 404


def test_token_is_verified_once_despite_extra_spaces(api_client: ApiClient) -> None:
    token = jwt.encode(GOOD, SECRET)
    assert [get_inbox(api_client, f"Bearer{' ' * spaces}{token}").status_code for spaces in (1, 2, 9)] == [200] * 3
    hits = api_client.backend.metrics.registry.get_sample_value(
        "notifier_inbox_cache_total", {"tier": "tokens", "result": "hit"}
    )
    assert hits == 2


def forge(claims: dict[str, Any], *, key: str = SECRET, algorithm: str = "HS256") -> str:
    """Sign any claims, also those of wrong types that our own code never issues."""
    return jwt.api_jws.encode(json.dumps(claims).encode(), key, algorithm=algorithm)


def get_inbox(api_client: ApiClient, authorization: str | None) -> httpx.Response:
    headers = {} if authorization is None else {b"Authorization": authorization.encode("latin-1")}
    return api_client.http.get(INBOX, headers=headers)


def inbox_status(api_client: ApiClient, token: str) -> int:
    return get_inbox(api_client, f"Bearer {token}").status_code
