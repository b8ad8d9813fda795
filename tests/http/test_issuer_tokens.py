"""Tokens of a configured issuer open inboxes; no other key, algorithm or claim does."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from litestar.testing import TestClient

from notifier.api.auth.authenticators import issue_token
from notifier.api.auth.issuer_keys import MAX_KEY_AGE, MIN_FETCH_INTERVAL, OUTAGE_EXTENSION
from notifier.config import Issuer, Settings
from notifier.domain.errors import BadSetting
from notifier.domain.ids import UserId
from tests.http.error_response_checks import assert_problem
from tests.support.in_memory_http_api import SERVICE_KEY, ApiClient, MemoryBackend
from tests.support.token_issuer import (
    AUDIENCE,
    NAME,
    NOW,
    VALID_CLAIMS,
    FakeIssuer,
    ed,
    forged,
    jwk,
    pem,
    rsa,
    signed_with_public_key,
)


@dataclass(slots=True)
class IssuerApi:
    issuer: FakeIssuer
    api_client: ApiClient

    def status(self, token: str, path: str = "/v1/inbox") -> int:
        return self.api_client.http.get(path, headers={"Authorization": f"Bearer {token}"}).status_code

    def advance(self, by: timedelta) -> None:
        """Advance the clock that `new_token` signs with."""
        self.api_client.backend.clock.advance(by)

    def new_token(self, kid: str = "a") -> str:
        now = int(self.api_client.backend.clock.now().timestamp())
        return self.issuer.sign(kid, iat=now, exp=now + 900)


@pytest.fixture
def api() -> Iterator[IssuerApi]:
    issuer, backend = FakeIssuer(), MemoryBackend()
    with TestClient(backend.app(authenticator=issuer.authenticator(backend)), raise_server_exceptions=False) as client:
        yield IssuerApi(issuer, ApiClient(backend, client))


@pytest.mark.parametrize("kid", ["a", "b"], ids=["EdDSA", "RS256"])
def test_issuer_token_grants_access_to_own_inbox(api: IssuerApi, kid: str) -> None:
    assert api.status(api.issuer.sign(kid)) == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW - 30},
        {"exp": None},
        {"exp": "never"},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"iat": NOW + 31},
        {"nbf": NOW + 31},
        {"nbf": float("nan")},
        {"aud": "notifier"},
        {"aud": []},
        {"aud": ["another"]},
        {"aud": None},
        {"iss": "https://id.example/"},
        {"iss": "https://evil.example"},
        {"iss": [NAME]},
        {"iss": None},
        {"sub": ""},
        {"sub": "u\x001"},
        {"sub": 7},
        {"sub": None},
    ],
    ids=str,
)
def test_issuer_token_with_a_bad_claim_is_refused(api: IssuerApi, changes: dict[str, Any]) -> None:
    response = api.api_client.http.get("/v1/inbox", headers={"Authorization": f"Bearer {api.issuer.sign(**changes)}"})
    assert_problem(response, 401, "bad_token")


@pytest.mark.parametrize(
    "changes",
    [{"exp": NOW - 29}, {"iat": NOW + 30}, {"iat": None}, {"exp": NOW + 0.5}, {"aud": ["x", AUDIENCE]}],
    ids=str,
)
def test_optional_and_tolerable_claims_are_accepted(api: IssuerApi, changes: dict[str, Any]) -> None:
    assert api.status(api.issuer.sign(**changes)) == 200


def test_forged_token_is_refused(api: IssuerApi) -> None:
    good, tampered = api.issuer.sign(), api.issuer.sign(sub="u2")
    for token in (
        api.issuer.sign(key=ed(1)),
        api.issuer.sign("b", key=rsa(1)),
        api.issuer.sign("a", key=rsa()),
        api.issuer.sign("b", key=ed()),
        forged(VALID_CLAIMS, ed(1), {"kid": "a", "jwk": jwk(ed(1)), "jku": "https://evil.example/jwks"}),
        forged(VALID_CLAIMS, ed(), {"kid": "a", "crit": ["x"]}),
        jwt.encode(VALID_CLAIMS, "", algorithm="none", headers={"kid": "a"}),
        jwt.encode(VALID_CLAIMS, rsa(), algorithm="RS512", headers={"kid": "b"}),
        jwt.encode(VALID_CLAIMS, rsa(), algorithm="PS256", headers={"kid": "b"}),
        signed_with_public_key(pem(rsa()), "b"),
        signed_with_public_key(pem(ed()), "a"),
        signed_with_public_key(ed().public_key().public_bytes_raw(), "a"),
        issue_token(api.api_client.backend.keys, UserId("u1"), api.api_client.backend.clock.now()),
        ".".join([good.split(".")[0], tampered.split(".")[1], good.split(".")[2]]),
        api.issuer.sign(None),
        "a.b.c",
        "x",
    ):
        assert api.status(token) == 401


def test_key_id_that_is_no_text_or_unknown_is_refused(api: IssuerApi) -> None:
    for kid in (7, ["a"], {"a": 1}, None, "", "a" * 100_000):
        token = forged(VALID_CLAIMS, ed(), {"kid": "a"})
        header = urlsafe_b64encode(json.dumps({"alg": "EdDSA", "kid": kid}).encode()).decode().rstrip("=")
        assert api.status(".".join([header, *token.split(".")[1:]])) == 401


def test_token_of_one_user_cannot_mark_items_of_another(api: IssuerApi) -> None:
    api.api_client.mention()
    api.api_client.backend.deliver()
    own_headers = {"Authorization": f"Bearer {api.issuer.sign(sub='u1')}"}
    other_headers = {"Authorization": f"Bearer {api.issuer.sign(sub='u2')}"}
    [item] = api.api_client.http.get("/v1/inbox", headers=own_headers).json()["items"]
    marks = {"bursts": [item["burst"]], "mark": "hidden"}
    assert_problem(api.api_client.http.put("/v1/inbox/marks", headers=other_headers, json=marks), 400, "bad_mark")
    assert api.api_client.http.put("/v1/inbox/marks", headers=own_headers, json=marks).status_code == 204


def test_user_token_reads_no_event_and_service_key_does(api: IssuerApi) -> None:
    assert api.status(api.issuer.sign(), "/v1/events/1") == 403
    assert api.status(SERVICE_KEY, "/v1/events/1") == 404
    assert api.status(SERVICE_KEY) == 403


def test_key_rotation_adds_keys_at_once_and_removes_within_ten_minutes(api: IssuerApi) -> None:
    assert api.status(api.new_token("a")) == 200
    api.advance(MIN_FETCH_INTERVAL)
    api.issuer.keys = {"c": ed(2)}
    assert api.status(api.new_token("c")) == 200
    api.issuer.keys["a"] = ed()
    api.advance(MIN_FETCH_INTERVAL)
    assert (api.status(api.new_token("a")), api.issuer.fetch_count) == (200, 3)
    del api.issuer.keys["a"]
    api.advance(MAX_KEY_AGE + timedelta(seconds=1))
    stolen = api.issuer.sign(key=ed(), kid="a", exp=NOW + 90_000)
    assert (api.status(stolen), api.status(api.new_token("c"))) == (401, 200)


def test_unknown_key_ids_query_the_issuer_once_in_ten_seconds(api: IssuerApi) -> None:
    assert api.status(api.issuer.sign()) == 200
    api.advance(MIN_FETCH_INTERVAL)
    assert {api.status(api.issuer.sign(f"k{number}", key=ed())) for number in range(30)} == {401}
    assert api.issuer.fetch_count == 2


def test_malformed_token_does_not_query_the_issuer(api: IssuerApi) -> None:
    for token in ("x", "a.b.c", SERVICE_KEY + "x"):
        assert api.status(token, "/v1/events/1") == 401
    assert api.issuer.fetch_count == 0


def test_last_issuer_keys_are_valid_for_an_hour_of_an_outage(api: IssuerApi) -> None:
    assert api.status(api.new_token()) == 200
    api.issuer.error = "It is down."
    api.advance(MAX_KEY_AGE + timedelta(seconds=1))
    assert api.status(api.new_token()) == 200
    api.advance(OUTAGE_EXTENSION - timedelta(seconds=1))
    assert api.status(api.new_token()) == 200
    api.advance(timedelta(seconds=1))
    response = api.api_client.http.get("/v1/inbox", headers={"Authorization": f"Bearer {api.new_token()}"})
    assert "It is down." not in str(assert_problem(response, 503, "issuer_unavailable"))
    assert response.headers["retry-after"]
    api.issuer.error = ""
    api.advance(MIN_FETCH_INTERVAL)
    assert api.status(api.new_token()) == 200


def test_verified_token_is_refused_once_no_key_is_valid(api: IssuerApi) -> None:
    token = api.issuer.sign(exp=NOW + 90_000)
    assert [api.status(token) for _ in range(2)] == [200, 200]
    api.issuer.error = "It is down."
    api.advance(MAX_KEY_AGE + OUTAGE_EXTENSION + timedelta(seconds=1))
    for path in ("/v1/inbox", "/v1/inbox/unread"):
        response = api.api_client.http.get(path, headers={"Authorization": f"Bearer {token}"})
        assert_problem(response, 503, "issuer_unavailable")
        assert response.headers["retry-after"]


def test_issuer_outage_before_the_first_key_is_503(api: IssuerApi) -> None:
    api.issuer.error = "It is down."
    assert api.status(api.issuer.sign()) == 503
    assert api.status(api.issuer.sign(), "/v1/events/1") == 401
    assert api.status(SERVICE_KEY, "/v1/events/1") == 404


@pytest.mark.parametrize(("format_", "kid", "other_kid"), [("pem", "a", "b"), ("jwk", "b", "a")])
def test_issuer_key_from_a_file_excludes_our_own_tokens(tmp_path: Path, format_: str, kid: str, other_kid: str) -> None:
    """The API is built from the settings alone, as at the start of a process."""
    (tmp_path / "key").write_bytes(pem(ed()) if format_ == "pem" else json.dumps(jwk(rsa())).encode())
    backend = MemoryBackend(Settings(issuer=Issuer(name=NAME, audience=AUDIENCE, key=str(tmp_path / "key"))))
    with TestClient(backend.app()) as client:
        api = IssuerApi(FakeIssuer(), ApiClient(backend, client))
        without_kid = api.issuer.sign(None, key=api.issuer.keys[kid])
        assert [api.status(api.issuer.sign(kid)), api.status(without_kid)] == [200, 200]
        assert [api.status(api.issuer.sign(other_kid)), api.status(backend.token("u1"))] == [401, 401]


@pytest.mark.parametrize("content", [b"", b"{}", b"-----BEGIN PUBLIC KEY-----\n", b'{"kty": "oct", "k": "c2VjcmV0"}'])
def test_file_without_a_public_key_prevents_the_start(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(BadSetting, match="NOTIFIER_ISSUER_KEY is"):
        MemoryBackend(Settings(issuer=Issuer(name=NAME, key=str(tmp_path / "key")))).app()
    with pytest.raises(BadSetting, match="No such file"):
        MemoryBackend(Settings(issuer=Issuer(name=NAME, key=str(tmp_path / "nothing")))).app()
