"""Where an issuer is set, its tokens open inboxes, and nothing else does: no other key, algorithm or claim."""

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

from notifier.api.auth.identity import issue
from notifier.api.auth.issuer_keys import AGAIN, AWAY, FRESH
from notifier.config import Issuer, Settings
from notifier.domain.errors import BadSetting
from notifier.domain.ids import UserId
from tests.http.problems import assert_problem
from tests.support.http_app import SERVICE_KEY, Edge, House
from tests.support.token_issuer import (
    AUDIENCE,
    GOOD,
    NAME,
    NOW,
    Issuing,
    ed,
    forged,
    jwk,
    pem,
    rsa,
    signed_with_public_key,
)


@dataclass(slots=True)
class Desk:
    issuer: Issuing
    edge: Edge

    def status(self, token: str, path: str = "/v1/inbox") -> int:
        return self.edge.client.get(path, headers={"Authorization": f"Bearer {token}"}).status_code

    def later(self, by: timedelta) -> None:
        """Tokens that are signed from now on are of now."""
        self.edge.house.clock.advance(by)

    def fresh(self, kid: str = "a") -> str:
        now = int(self.edge.house.clock.now().timestamp())
        return self.issuer.sign(kid, iat=now, exp=now + 900)


@pytest.fixture
def desk() -> Iterator[Desk]:
    issuer, house = Issuing(), House()
    with TestClient(house.app(identity=issuer.identity(house)), raise_server_exceptions=False) as client:
        yield Desk(issuer, Edge(house, client))


@pytest.mark.parametrize("kid", ["a", "b"], ids=["EdDSA", "RS256"])
def test_a_token_of_the_issuer_opens_its_persons_inbox(desk: Desk, kid: str) -> None:
    assert desk.status(desk.issuer.sign(kid)) == 200


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
def test_a_token_of_the_issuer_with_another_claim_is_refused(desk: Desk, changes: dict[str, Any]) -> None:
    answer = desk.edge.client.get("/v1/inbox", headers={"Authorization": f"Bearer {desk.issuer.sign(**changes)}"})
    assert_problem(answer, 401, "bad_token")


@pytest.mark.parametrize(
    "changes",
    [{"exp": NOW - 29}, {"iat": NOW + 30}, {"iat": None}, {"exp": NOW + 0.5}, {"aud": ["x", AUDIENCE]}],
    ids=str,
)
def test_what_the_standard_leaves_to_issuers_is_taken(desk: Desk, changes: dict[str, Any]) -> None:
    assert desk.status(desk.issuer.sign(**changes)) == 200


def test_a_forged_token_is_refused(desk: Desk) -> None:
    good, other = desk.issuer.sign(), desk.issuer.sign(sub="u2")
    for token in (
        desk.issuer.sign(key=ed(1)),
        desk.issuer.sign("b", key=rsa(1)),
        desk.issuer.sign("a", key=rsa()),
        desk.issuer.sign("b", key=ed()),
        forged(GOOD, ed(1), {"kid": "a", "jwk": jwk(ed(1)), "jku": "https://evil.example/jwks"}),
        forged(GOOD, ed(), {"kid": "a", "crit": ["x"]}),
        jwt.encode(GOOD, "", algorithm="none", headers={"kid": "a"}),
        jwt.encode(GOOD, rsa(), algorithm="RS512", headers={"kid": "b"}),
        jwt.encode(GOOD, rsa(), algorithm="PS256", headers={"kid": "b"}),
        signed_with_public_key(pem(rsa()), "b"),
        signed_with_public_key(pem(ed()), "a"),
        signed_with_public_key(ed().public_key().public_bytes_raw(), "a"),
        issue(desk.edge.house.keys, UserId("u1"), desk.edge.house.clock.now()),
        ".".join([good.split(".")[0], other.split(".")[1], good.split(".")[2]]),
        desk.issuer.sign(None),
        "a.b.c",
        "x",
    ):
        assert desk.status(token) == 401


def test_a_name_of_a_key_is_a_text(desk: Desk) -> None:
    for kid in (7, ["a"], {"a": 1}, None, "", "a" * 100_000):
        token = forged(GOOD, ed(), {"kid": "a"})
        header = urlsafe_b64encode(json.dumps({"alg": "EdDSA", "kid": kid}).encode()).decode().rstrip("=")
        assert desk.status(".".join([header, *token.split(".")[1:]])) == 401


def test_one_person_s_token_opens_nothing_of_another_s(desk: Desk) -> None:
    desk.edge.mention()
    desk.edge.house.deliver()
    mine = {"Authorization": f"Bearer {desk.issuer.sign(sub='u1')}"}
    others = {"Authorization": f"Bearer {desk.issuer.sign(sub='u2')}"}
    [item] = desk.edge.client.get("/v1/inbox", headers=mine).json()["items"]
    marks = {"bursts": [item["burst"]], "mark": "hidden"}
    assert_problem(desk.edge.client.put("/v1/inbox/marks", headers=others, json=marks), 400, "bad_mark")
    assert desk.edge.client.put("/v1/inbox/marks", headers=mine, json=marks).status_code == 204


def test_a_person_s_token_brings_no_event_and_the_service_key_does(desk: Desk) -> None:
    assert desk.status(desk.issuer.sign(), "/v1/events/1") == 403
    assert desk.status(SERVICE_KEY, "/v1/events/1") == 404
    assert desk.status(SERVICE_KEY) == 403


def test_a_new_key_of_the_issuer_counts_at_once_and_a_withdrawn_one_within_ten_minutes(desk: Desk) -> None:
    assert desk.status(desk.fresh("a")) == 200
    desk.later(AGAIN)
    desk.issuer.keys = {"c": ed(2)}
    assert desk.status(desk.fresh("c")) == 200
    desk.issuer.keys["a"] = ed()
    desk.later(AGAIN)
    assert (desk.status(desk.fresh("a")), desk.issuer.asked) == (200, 3)
    del desk.issuer.keys["a"]
    desk.later(FRESH + timedelta(seconds=1))
    stolen = desk.issuer.sign(key=ed(), kid="a", exp=NOW + 90_000)
    assert (desk.status(stolen), desk.status(desk.fresh("c"))) == (401, 200)


def test_keys_that_nobody_knows_make_the_issuer_be_asked_once_in_ten_seconds(desk: Desk) -> None:
    assert desk.status(desk.issuer.sign()) == 200
    desk.later(AGAIN)
    assert {desk.status(desk.issuer.sign(f"k{number}", key=ed())) for number in range(30)} == {401}
    assert desk.issuer.asked == 2


def test_what_is_no_token_at_all_asks_nobody(desk: Desk) -> None:
    for word in ("x", "a.b.c", SERVICE_KEY + "x"):
        assert desk.status(word, "/v1/events/1") == 401
    assert desk.issuer.asked == 0


def test_while_the_issuer_is_away_its_last_keys_count_for_an_hour(desk: Desk) -> None:
    assert desk.status(desk.fresh()) == 200
    desk.issuer.broken = "It is down."
    desk.later(FRESH + timedelta(seconds=1))
    assert desk.status(desk.fresh()) == 200
    desk.later(AWAY - timedelta(seconds=1))
    assert desk.status(desk.fresh()) == 200
    desk.later(timedelta(seconds=1))
    answer = desk.edge.client.get("/v1/inbox", headers={"Authorization": f"Bearer {desk.fresh()}"})
    assert "It is down." not in str(assert_problem(answer, 503, "issuer_unavailable"))
    assert answer.headers["retry-after"]
    desk.issuer.broken = ""
    desk.later(AGAIN)
    assert desk.status(desk.fresh()) == 200


def test_a_token_that_was_verified_before_is_refused_in_full_once_no_key_counts(desk: Desk) -> None:
    lasting = desk.issuer.sign(exp=NOW + 90_000)
    assert [desk.status(lasting) for _ in range(2)] == [200, 200]
    desk.issuer.broken = "It is down."
    desk.later(FRESH + AWAY + timedelta(seconds=1))
    for path in ("/v1/inbox", "/v1/inbox/unread"):
        answer = desk.edge.client.get(path, headers={"Authorization": f"Bearer {lasting}"})
        assert_problem(answer, 503, "issuer_unavailable")
        assert answer.headers["retry-after"]


def test_without_any_key_yet_nobody_can_say_and_events_are_still_refused(desk: Desk) -> None:
    desk.issuer.broken = "It is down."
    assert desk.status(desk.issuer.sign()) == 503
    assert desk.status(desk.issuer.sign(), "/v1/events/1") == 401
    assert desk.status(SERVICE_KEY, "/v1/events/1") == 404


@pytest.mark.parametrize(("form", "kid", "other"), [("pem", "a", "b"), ("jwk", "b", "a")])
def test_a_key_in_a_file_opens_and_tokens_of_our_own_do_not(tmp_path: Path, form: str, kid: str, other: str) -> None:
    """By the settings alone, as a process that starts has them."""
    (tmp_path / "key").write_bytes(pem(ed()) if form == "pem" else json.dumps(jwk(rsa())).encode())
    house = House(Settings(issuer=Issuer(name=NAME, audience=AUDIENCE, key=str(tmp_path / "key"))))
    with TestClient(house.app()) as client:
        desk = Desk(Issuing(), Edge(house, client))
        unnamed = desk.issuer.sign(None, key=desk.issuer.keys[kid])
        assert [desk.status(desk.issuer.sign(kid)), desk.status(unnamed)] == [200, 200]
        assert [desk.status(desk.issuer.sign(other)), desk.status(house.token("u1"))] == [401, 401]


@pytest.mark.parametrize("content", [b"", b"{}", b"-----BEGIN PUBLIC KEY-----\n", b'{"kty": "oct", "k": "c2VjcmV0"}'])
def test_a_file_without_a_public_key_starts_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(BadSetting, match="NOTIFIER_ISSUER_KEY is"):
        House(Settings(issuer=Issuer(name=NAME, key=str(tmp_path / "key")))).app()
    with pytest.raises(BadSetting, match="No such file"):
        House(Settings(issuer=Issuer(name=NAME, key=str(tmp_path / "nothing")))).app()
