"""Devices of people: registered at once, theirs alone, and never shown whole."""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from notifier.api.background.limiters import DeviceRequestLimiter
from notifier.bounded_executor import BoundedExecutor, Bulkhead
from notifier.domain.audience.bitmap import members
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.ids import Member, UserId
from notifier.domain.push.device import MOST_DEVICES, DeviceWord
from notifier.domain.upstream.validation import CHANGED_TYPE, ERASED_TYPE
from notifier.wiring.indexing import build_device_registry
from tests.http.problems import assert_problem
from tests.support.example_event import event
from tests.support.fakes.threads import InlineThreads
from tests.support.http_app import Edge, House

T = TypeVar("T")

POINT = generate_private_key(SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
KEYS = {"p256dh": urlsafe_b64encode(POINT).decode(), "auth": urlsafe_b64encode(b"s" * 16).decode().rstrip("=")}
APPLE = {"platform": "apns", "token": "AB" * 30 + "12cd", "topic": "com.example.app"}
TOKEN = {"platform": "fcm", "token": "t" * 136 + "wxyz"}
FID = {"platform": "fcm", "fid": "dIsVQ2QVRT-TW7L6VfeAMh"}
BROWSER = {
    "platform": "web",
    "subscription": {
        "endpoint": "https://updates.push.services.mozilla.com/send/abcd",
        "expirationTime": None,
        "keys": KEYS,
    },
}


def register(edge: Edge, body: object, who: str = "u1", method: str = "PUT") -> httpx.Response:
    return edge.client.request(method, "/v1/devices", json=body, headers=edge.bearer(who))


def registered(edge: Edge, body: object, who: str = "u1") -> dict[str, Any]:
    answer = register(edge, body, who)
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "private, no-store"), answer.text
    found: dict[str, Any] = answer.json()
    return found


def devices(edge: Edge, who: str = "u1") -> list[dict[str, Any]]:
    answer = edge.client.get("/v1/devices", headers=edge.bearer(who))
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "private, no-store")
    found: list[dict[str, Any]] = answer.json()["devices"]
    return found


def unregister(edge: Edge, id: str, who: str = "u1") -> httpx.Response:
    return edge.client.delete(f"/v1/devices/{id}", headers=edge.bearer(who))


def ringing(edge: Edge) -> list[int]:
    """By the bitmap that fan-out goes by."""
    edge.house.sequence()
    return [
        int(member) for bits in edge.house.sets.read(SetKind.PUSH, None, [0]).values() for member in members(bits, 0)
    ]


def test_who_has_none_is_told_so(edge: Edge) -> None:
    assert (devices(edge), ringing(edge)) == ([], [])


def test_each_kind_is_registered_and_told_by_four_letters(edge: Edge) -> None:
    more = {"locale": "pt_BR", "time_zone": "America/Sao_Paulo"}
    told = [registered(edge, body | more) for body in (APPLE, TOKEN, FID, BROWSER)]
    assert [(one["platform"], one["app"], one["last_four"]) for one in told] == [
        ("apns", "com.example.app", "12cd"),
        ("fcm", None, "wxyz"),
        ("fcm", None, "eAMh"),
        ("web", "https://updates.push.services.mozilla.com", "abcd"),
    ]
    assert {(one["locale"], one["time_zone"], one["registered_at"]) for one in told} == {
        ("pt-BR", "America/Sao_Paulo", "2026-01-05T12:00:00Z")
    }
    assert sorted(devices(edge), key=lambda one: str(one["id"])) == sorted(told, key=lambda one: str(one["id"]))
    assert ringing(edge) == [1]


def test_nothing_that_is_answered_has_an_address_in_it(edge: Edge) -> None:
    answers = [register(edge, body) for body in (APPLE, TOKEN, FID, BROWSER)]
    answers.append(edge.client.get("/v1/devices", headers=edge.bearer("u1")))
    for answer in answers:
        assert not any(word in answer.text for word in ("abababab", "tttttttt", "dIsVQ2QV", "/send/", *KEYS.values()))


def test_registered_again_by_either_method_it_is_the_same_device(edge: Edge) -> None:
    first = registered(edge, APPLE)
    edge.house.clock.advance(timedelta(days=1))
    again = register(edge, APPLE | {"token": APPLE["token"].lower()}, method="POST").json()
    assert again == {**first, "registered_at": "2026-01-06T12:00:00Z"}
    assert devices(edge) == [again]


def test_who_logs_in_on_the_phone_of_another_has_it_alone(edge: Edge) -> None:
    device = registered(edge, APPLE)
    edge.house.clock.advance(timedelta(seconds=1))
    assert registered(edge, APPLE, "u2")["id"] == device["id"]
    assert (devices(edge), len(devices(edge, "u2")), ringing(edge)) == ([], 1, [2])
    assert unregister(edge, device["id"], "u1").status_code == 204
    assert (len(devices(edge, "u2")), ringing(edge)) == (1, [2])


def test_what_is_unregistered_is_gone_and_to_say_it_again_is_no_mistake(edge: Edge) -> None:
    device = registered(edge, APPLE)
    for _ in range(2):
        answer = unregister(edge, device["id"])
        assert (answer.status_code, answer.content, devices(edge), ringing(edge)) == (204, b"", [], [])
    assert registered(edge, APPLE)["id"] == device["id"]
    assert ringing(edge) == [1]


def test_who_was_never_heard_of_may_register_and_has_a_number_then(edge: Edge) -> None:
    assert_problem(edge.client.get("/v1/devices", headers=edge.bearer("newcomer")), 404, "not_found")
    device = registered(edge, APPLE, "newcomer")
    assert devices(edge, "newcomer") == [device]
    assert edge.inbox("newcomer").json()["items"] == []
    assert_problem(register(edge, TOKEN, "gone"), 404, "not_found")


@pytest.mark.parametrize("id", ["1", "0" * 31, "0" * 33, "G" * 32, "%00" * 11])
def test_what_is_no_id_is_refused(edge: Edge, id: str) -> None:
    assert_problem(unregister(edge, id), 404, "not_found")


def test_a_fid_takes_the_token_away_that_it_stands_in_for(edge: Edge) -> None:
    registered(edge, TOKEN)
    registered(edge, FID)
    assert len(devices(edge)) == 2
    registered(edge, FID | {"replaces": TOKEN["token"]})
    assert [one["last_four"] for one in devices(edge)] == ["eAMh"]


def test_the_twenty_first_takes_the_place_of_the_first(edge: Edge) -> None:
    for n in range(MOST_DEVICES + 1):
        registered(edge, TOKEN | {"token": f"{n:040}"})
        edge.house.clock.advance(timedelta(seconds=1))
    assert [one["last_four"] for one in devices(edge)] == [f"{n:04}" for n in range(MOST_DEVICES, 0, -1)]


def test_a_deleted_account_has_no_devices(edge: Edge) -> None:
    registered(edge, APPLE)
    registered(edge, TOKEN, "u2")
    assert ringing(edge) == [1, 2]
    said = event(id="d", more={"type": CHANGED_TYPE}) | {"data": {"user": "u1", "sequence": 1, "deleted": True}}
    assert edge.post(said).status_code == 202
    edge.house.sequence()
    assert (ringing(edge), list(edge.house.ports.devices.of([Member(1), Member(2)]))) == ([2], [2])
    assert_problem(register(edge, APPLE), 404, "not_found")


def test_an_erased_account_has_those_that_it_registers_afterwards(edge: Edge) -> None:
    registered(edge, APPLE)
    registered(edge, TOKEN)
    edge.house.clock.advance(timedelta(seconds=1))
    said = event(id="e", more={"type": ERASED_TYPE}, at=edge.house.clock.now()) | {"data": {"user": "u1"}}
    assert edge.post(said).status_code == 202
    edge.house.clock.advance(timedelta(seconds=1))
    registered(edge, FID)
    edge.house.sequence()
    assert ([one["last_four"] for one in devices(edge)], ringing(edge)) == (["eAMh"], [1])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"platform": "pager", "token": "1"}, "there are apns, fcm, web"),
        ({"platform": "p" * 5_000}, "there are apns, fcm, web"),
        ({"platform": "apns", "token": "ab" * 32}, "a token and a topic"),
        ({"platform": "apns", "fid": FID["fid"], "topic": "app"}, "a token and a topic"),
        ({"platform": "fcm"}, "a token or a fid"),
        (TOKEN | FID, "a token or a fid"),
        (TOKEN | {"subscription": BROWSER["subscription"]}, "a token or a fid"),
        ({"platform": "web", "token": "ab" * 32}, "a subscription"),
        (APPLE | {"token": "xy" * 32}, "hexadecimal"),
        (APPLE | {"topic": "no bundle"}, "bundle"),
        (APPLE | {"environment": "staging"}, "production, sandbox"),
        (TOKEN | {"token": "short"}, "32 to 2048"),
        (FID | {"fid": "short"}, "22 letters"),
        (TOKEN | {"replaces": "t" * 140}, "Only a fid"),
        (FID | {"replaces": "short"}, "32 to 2048"),
        (TOKEN | {"locale": "english please"}, "language"),
        (TOKEN | {"time_zone": "Mars/Olympus"}, "IANA"),
        ({"platform": "web", "subscription": {"endpoint": "http://127.0.0.1/", "keys": KEYS}}, "https"),
        (
            {
                "platform": "web",
                "subscription": {"endpoint": "https://u:p@updates.push.services.mozilla.com/", "keys": KEYS},
            },
            "as browsers write it",
        ),
        (
            {
                "platform": "web",
                "subscription": {
                    "endpoint": "https://updates.push.services.mozilla.com/1",
                    "keys": KEYS | {"auth": "AA"},
                },
            },
            "auth",
        ),
        (
            {
                "platform": "web",
                "subscription": {
                    "endpoint": "https://updates.push.services.mozilla.com/1",
                    "keys": KEYS | {"p256dh": "AA"},
                },
            },
            "p256dh",
        ),
    ],
)
def test_what_can_t_be_a_device_is_refused_with_the_reason(edge: Edge, body: object, says: str) -> None:
    refusal = assert_problem(register(edge, body), 400, "bad_device")
    assert says in refusal["detail"]
    assert devices(edge) == []


@pytest.mark.parametrize(
    "body", [{}, [], "apns", 7, {"platform": 7}, TOKEN | {"token": 7}, BROWSER | {"subscription": {"keys": KEYS}}]
)
def test_what_is_no_registration_is_refused(edge: Edge, body: object) -> None:
    assert_problem(register(edge, body), 400, "refused")
    assert devices(edge) == []


def test_a_body_that_is_too_large_or_of_another_kind_is_refused(edge: Edge) -> None:
    assert_problem(register(edge, TOKEN | {"more": "x" * 9_000}), 413, "too_large")
    plain = edge.client.put("/v1/devices", content=b"{}", headers=edge.bearer("u1") | {"Content-Type": "text/plain"})
    assert_problem(plain, 415, "wrong_content_type")


def test_while_the_log_is_away_nothing_is_registered(edge: Edge) -> None:
    edge.house.broken.log = LogUnavailable()
    assert_problem(register(edge, APPLE), 503, "log_unavailable")
    assert devices(edge) == []


def test_what_the_store_hasn_t_isn_t_confirmed_and_comes_to_stand_by_the_log(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registration says that nobody else is told through the device: as long as that isn't so it is none."""

    def away(_: Sequence[DeviceWord]) -> None:
        raise StoreUnavailable

    registered(edge, APPLE, "u2")
    edge.house.clock.advance(timedelta(seconds=1))
    with monkeypatch.context() as broken:
        broken.setattr(type(edge.house.ports.devices), "write", lambda _, words: away(words))
        assert_problem(register(edge, APPLE), 503, "store_unavailable")
    assert (len(devices(edge)), len(devices(edge, "u2"))) == (0, 1)
    assert ringing(edge) == [1]
    assert (len(devices(edge)), len(devices(edge, "u2"))) == (1, 0)


def test_who_finds_all_turns_taken_is_told_to_come_again() -> None:
    """A store that is slow holds a few of the edge's threads, and no more."""
    house = House()

    async def asked() -> None:
        book = build_device_registry(house.system)
        executor = BoundedExecutor(threads=InlineThreads(), bulkhead=Bulkhead(at_once=1, wait=timedelta(0)))
        phones = DeviceRequestLimiter(book=book, threads=executor)
        async with executor.bulkhead.slot():
            with pytest.raises(StoreUnavailable):
                await phones(UserId("u1"), lambda book, member: book.of(member))
        assert await phones(UserId("u1"), lambda book, member: book.of(member)) == []

    asyncio.run(asked())
