"""Registration of a user's devices; responses never show a whole address."""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from notifier.api.background.request_limiters import DeviceRequestLimiter
from notifier.concurrency_and_time_limits import BoundedExecutor, Bulkhead
from notifier.domain.audience.bitmap import members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.ids import Member, UserId
from notifier.domain.push.device import MAX_DEVICES, DeviceUpdate
from notifier.domain.upstream.validation import CHANGED_TYPE, ERASED_TYPE
from notifier.wiring.indexers_and_device_registry import build_device_registry
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.fakes.api_threads import InlineThreads
from tests.support.in_memory_http_api import ApiClient, MemoryBackend

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


def register(api_client: ApiClient, body: object, user: str = "u1", method: str = "PUT") -> httpx.Response:
    return api_client.http.request(method, "/v1/devices", json=body, headers=api_client.bearer(user))


def registered(api_client: ApiClient, body: object, user: str = "u1") -> dict[str, Any]:
    response = register(api_client, body, user)
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "private, no-store"), response.text
    device: dict[str, Any] = response.json()
    return device


def devices(api_client: ApiClient, user: str = "u1") -> list[dict[str, Any]]:
    response = api_client.http.get("/v1/devices", headers=api_client.bearer(user))
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "private, no-store")
    body: list[dict[str, Any]] = response.json()["devices"]
    return body


def unregister(api_client: ApiClient, id: str, user: str = "u1") -> httpx.Response:
    return api_client.http.delete(f"/v1/devices/{id}", headers=api_client.bearer(user))


def push_members(api_client: ApiClient) -> list[int]:
    """Return the members in the bitmap that fan-out reads."""
    api_client.backend.sequence()
    return [
        int(member)
        for bits in api_client.backend.sets.read(SetKind.WITH_DEVICE, None, [0]).values()
        for member in members(bits, 0)
    ]


def test_device_list_is_empty_at_first(api_client: ApiClient) -> None:
    assert (devices(api_client), push_members(api_client)) == ([], [])


def test_each_platform_is_registered_and_listed_by_last_four(api_client: ApiClient) -> None:
    language = {"locale": "pt_BR", "time_zone": "America/Sao_Paulo"}
    expected = [registered(api_client, body | language) for body in (APPLE, TOKEN, FID, BROWSER)]
    assert [(device["platform"], device["app"], device["last_four"]) for device in expected] == [
        ("apns", "com.example.app", "12cd"),
        ("fcm", None, "wxyz"),
        ("fcm", None, "eAMh"),
        ("web", "https://updates.push.services.mozilla.com", "abcd"),
    ]
    assert {(device["locale"], device["time_zone"], device["registered_at"]) for device in expected} == {
        ("pt-BR", "America/Sao_Paulo", "2026-01-05T12:00:00Z")
    }
    assert sorted(devices(api_client), key=lambda item: str(item["id"])) == sorted(
        expected, key=lambda device: str(device["id"])
    )
    assert push_members(api_client) == [1]


def test_responses_contain_no_device_address(api_client: ApiClient) -> None:
    responses = [register(api_client, body) for body in (APPLE, TOKEN, FID, BROWSER)]
    responses.append(api_client.http.get("/v1/devices", headers=api_client.bearer("u1")))
    for response in responses:
        assert not any(part in response.text for part in ("abababab", "tttttttt", "dIsVQ2QV", "/send/", *KEYS.values()))


def test_repeated_registration_is_the_same_device(api_client: ApiClient) -> None:
    first = registered(api_client, APPLE)
    api_client.backend.clock.advance(timedelta(days=1))
    renewed = register(api_client, APPLE | {"token": APPLE["token"].lower()}, method="POST").json()
    assert renewed == {**first, "registered_at": "2026-01-06T12:00:00Z"}
    assert devices(api_client) == [renewed]


def test_device_moves_to_the_user_who_registers_it_last(api_client: ApiClient) -> None:
    device = registered(api_client, APPLE)
    api_client.backend.clock.advance(timedelta(seconds=1))
    assert registered(api_client, APPLE, "u2")["id"] == device["id"]
    assert (devices(api_client), len(devices(api_client, "u2")), push_members(api_client)) == ([], 1, [2])
    assert unregister(api_client, device["id"], "u1").status_code == 204
    assert (len(devices(api_client, "u2")), push_members(api_client)) == (1, [2])


def test_unregistering_is_idempotent(api_client: ApiClient) -> None:
    device = registered(api_client, APPLE)
    for _ in range(2):
        response = unregister(api_client, device["id"])
        assert (response.status_code, response.content, devices(api_client), push_members(api_client)) == (
            204,
            b"",
            [],
            [],
        )
    assert registered(api_client, APPLE)["id"] == device["id"]
    assert push_members(api_client) == [1]


def test_unknown_user_gets_a_member_number_on_registration(api_client: ApiClient) -> None:
    assert_problem(api_client.http.get("/v1/devices", headers=api_client.bearer("newcomer")), 404, "not_found")
    device = registered(api_client, APPLE, "newcomer")
    assert devices(api_client, "newcomer") == [device]
    assert api_client.inbox("newcomer").json()["items"] == []
    assert_problem(register(api_client, TOKEN, "gone"), 404, "not_found")


@pytest.mark.parametrize("id", ["1", "0" * 31, "0" * 33, "G" * 32, "%00" * 11])
def test_invalid_device_id_is_not_found(api_client: ApiClient, id: str) -> None:
    assert_problem(unregister(api_client, id), 404, "not_found")


def test_fid_replaces_the_token_it_names(api_client: ApiClient) -> None:
    registered(api_client, TOKEN)
    registered(api_client, FID)
    assert len(devices(api_client)) == 2
    registered(api_client, FID | {"replaces": TOKEN["token"]})
    assert [device["last_four"] for device in devices(api_client)] == ["eAMh"]


def test_device_beyond_the_limit_replaces_the_oldest(api_client: ApiClient) -> None:
    for n in range(MAX_DEVICES + 1):
        registered(api_client, TOKEN | {"token": f"{n:040}"})
        api_client.backend.clock.advance(timedelta(seconds=1))
    assert [device["last_four"] for device in devices(api_client)] == [f"{n:04}" for n in range(MAX_DEVICES, 0, -1)]


def test_deleted_account_has_no_devices(api_client: ApiClient) -> None:
    registered(api_client, APPLE)
    registered(api_client, TOKEN, "u2")
    assert push_members(api_client) == [1, 2]
    deletion = event(id="d", more={"type": CHANGED_TYPE}) | {"data": {"user": "u1", "sequence": 1, "deleted": True}}
    assert api_client.post(deletion).status_code == 202
    api_client.backend.sequence()
    assert (push_members(api_client), list(api_client.backend.ports.devices.by_member([Member(1), Member(2)]))) == (
        [2],
        [2],
    )
    assert_problem(register(api_client, APPLE), 404, "not_found")


def test_erased_account_keeps_only_devices_registered_later(api_client: ApiClient) -> None:
    registered(api_client, APPLE)
    registered(api_client, TOKEN)
    api_client.backend.clock.advance(timedelta(seconds=1))
    deletion = event(id="e", more={"type": ERASED_TYPE}, at=api_client.backend.clock.now()) | {"data": {"user": "u1"}}
    assert api_client.post(deletion).status_code == 202
    api_client.backend.clock.advance(timedelta(seconds=1))
    registered(api_client, FID)
    api_client.backend.sequence()
    assert ([device["last_four"] for device in devices(api_client)], push_members(api_client)) == (["eAMh"], [1])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"platform": "pager", "token": "1"}, "use one of apns, fcm, web"),
        ({"platform": "p" * 5_000}, "use one of apns, fcm, web"),
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
def test_invalid_device_is_refused_with_the_reason(api_client: ApiClient, body: object, reason: str) -> None:
    refusal = assert_problem(register(api_client, body), 400, "bad_device")
    assert reason in refusal["detail"]
    assert devices(api_client) == []


@pytest.mark.parametrize(
    "body", [{}, [], "apns", 7, {"platform": 7}, TOKEN | {"token": 7}, BROWSER | {"subscription": {"keys": KEYS}}]
)
def test_malformed_registration_is_refused(api_client: ApiClient, body: object) -> None:
    assert_problem(register(api_client, body), 400, "refused")
    assert devices(api_client) == []


def test_too_large_or_wrongly_typed_body_is_refused(api_client: ApiClient) -> None:
    assert_problem(register(api_client, TOKEN | {"more": "x" * 9_000}), 413, "too_large")
    plain = api_client.http.put(
        "/v1/devices", content=b"{}", headers=api_client.bearer("u1") | {"Content-Type": "text/plain"}
    )
    assert_problem(plain, 415, "wrong_content_type")


def test_log_outage_registers_nothing(api_client: ApiClient) -> None:
    api_client.backend.port_errors.log = LogUnavailable()
    assert_problem(register(api_client, APPLE), 503, "log_unavailable")
    assert devices(api_client) == []


def test_registration_is_unconfirmed_in_a_store_outage_and_indexed_later(
    api_client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A confirmation promises that no other user gets alerts on the device, so the store must have the change."""

    def fail(_: Sequence[DeviceUpdate]) -> None:
        raise StoreUnavailable

    registered(api_client, APPLE, "u2")
    api_client.backend.clock.advance(timedelta(seconds=1))
    with monkeypatch.context() as broken:
        broken.setattr(type(api_client.backend.ports.devices), "write", lambda _, records: fail(records))
        assert_problem(register(api_client, APPLE), 503, "store_unavailable")
    assert (len(devices(api_client)), len(devices(api_client, "u2"))) == (0, 1)
    assert push_members(api_client) == [1]
    assert (len(devices(api_client)), len(devices(api_client, "u2"))) == (1, 0)


def test_device_request_fails_when_all_slots_are_taken() -> None:
    """A slow store occupies only a few of the API's threads."""
    backend = MemoryBackend()

    async def run() -> None:
        registry = build_device_registry(backend.system)
        executor = BoundedExecutor(threads=InlineThreads(), bulkhead=Bulkhead(max_concurrent=1, max_wait=timedelta(0)))
        limiter = DeviceRequestLimiter(registry=registry, threads=executor)
        async with executor.bulkhead.slot():
            with pytest.raises(StoreUnavailable):
                await limiter(UserId("u1"), lambda registry, member: registry.list_devices(member))
        assert await limiter(UserId("u1"), lambda registry, member: registry.list_devices(member)) == []

    asyncio.run(run())
