"""Tweets of protected accounts leak nothing to strangers through any response or alert."""

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import httpx
import pytest
from litestar.testing import TestClient

from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.push.device import Device, FirebaseToken
from notifier.ports.audience import ShardBitmap
from tests.support.example_event_and_acceptance import event
from tests.support.in_memory_http_api import ApiClient, MemoryBackend

SECRET_COUNT = 300
"""More than one byte can count, so no number keeps its length by chance."""
NOVA, BOB = (Subject(Kind.MENTION, UserId(name)) for name in ("nova", "bob"))
OPAQUE = re.compile(r"[\w-]{30,}|(?<=W/\")\w{24}")
"""Matches ids, cursors, seen tokens and ETags."""


@contextmanager
def system_with_devices() -> Iterator[ApiClient]:
    """Yield a system with phones; bob is protected, `u2` follows him, and `u1` is a stranger to him."""
    backend = MemoryBackend()
    backend.sets.put([ShardBitmap(kind=SetKind.WITH_DEVICE, owner=None, shard=0, bits=from_offsets([1, 2, 3]))])
    backend.ports.devices.write([_phone(Member(n), backend.clock.now()) for n in (1, 2, 3)])
    backend.people.follow(UserId("u2"), BOB, backend.clock.now() - timedelta(days=1))
    with TestClient(backend.app(), raise_server_exceptions=False) as client:
        yield ApiClient(backend, client)


def _phone(member: Member, now: datetime) -> Device:
    return Device(member=member, address=FirebaseToken(token=f"phone-{member}"), registered_at=now)


def publish(
    api_client: ApiClient, *ids: str, protected: bool = False, advance: timedelta = timedelta(minutes=2)
) -> None:
    """Publish the mentions; the time it takes does not depend on their number."""
    author = "bob" if protected else "ada"
    if ids:
        api_client.batch(*(event(id, author=author, protected=protected) for id in ids))
        api_client.backend.sequence()
    api_client.backend.clock.advance(advance)


def publish_secrets(api_client: ApiClient, prefix: str, n: int) -> None:
    publish(api_client, *(f"{prefix}-{k}" for k in range(n)), protected=True)


def run_three_days(secret: int) -> tuple[list[str], list[object]]:
    """Return every response to a stranger over three days, and every alert on her phone."""
    with system_with_devices() as api_client:
        texts: list[str] = []
        for day in ("a", "b", "c"):
            publish_secrets(api_client, f"before-{day}", secret)
            publish(api_client, day)
            publish_secrets(api_client, f"behind-{day}", min(secret, 9))
            api_client.backend.deliver()
            texts += view(api_client)
        texts += view(api_client, last=True)
        alerts = [alert for alert, device in api_client.backend.phones.arrived if device.member == 1]
        return texts, [(alert.text, alert.collapse_id) for alert in alerts if alert.subject.kind is Kind.MENTION]


def view(api_client: ApiClient, *, last: bool = False) -> list[str]:
    """Return every response that `u1` can get, with all of its bytes."""
    pages = [api_client.inbox("u1", limit=1)]
    while "next" in pages[-1].links:
        pages.append(api_client.http.get(pages[-1].links["next"]["url"], headers=api_client.bearer("u1")))
    gaps = [api_client.gaps("u1", {"from": 0, "limit": 1})]
    while "next" in gaps[-1].links:
        gaps.append(api_client.http.get(gaps[-1].links["next"]["url"], headers=api_client.bearer("u1")))
    responses = [
        *pages,
        *gaps,
        api_client.gaps("u1", {"from": 0}),
        api_client.inbox("u1"),
        api_client.http.get("/v1/inbox/unread", headers=api_client.bearer("u1")),
    ]
    responses.append(api_client.inbox("u1", {"If-None-Match": pages[0].headers["etag"]}, limit=1))
    if last:
        ids = [item["burst"] for page in pages for item in page.json()["items"]]
        responses.append(api_client.put("/v1/inbox/marks", "u1", {"bursts": ids[:1], "mark": "unread"}))
        responses.append(api_client.put("/v1/inbox/seen", "u1", {"token": pages[0].json()["seen"]}))
        responses.append(api_client.inbox("u1"))
        responses.append(api_client.put("/v1/inbox/marks", "u1", {"bursts": [ids[0] + "A"], "mark": "read"}))
        api_client.backend.people.unfollow(UserId("u1"), NOVA)
        responses.append(api_client.put("/v1/inbox/marks", "u1", {"bursts": ids, "mark": "read"}))
        responses.append(api_client.inbox("u1"))
    return [serialize(response) for response in responses]


def serialize(response: httpx.Response) -> str:
    # The remaining rate limit counts the requests of the test itself.
    headers = {name: value for name, value in response.headers.items() if name != "ratelimit"}
    return f"{response.status_code}\n{headers}\n{response.text}"


def with_numbered_ids(texts: Sequence[str]) -> list[str]:
    """Replace each opaque value by its ordinal and length: all that can be known of it without the key."""
    names: dict[str, str] = {}
    return [
        OPAQUE.sub(lambda m: names.setdefault(m.group(), f"<{len(names)}, {len(m.group())} long>"), text)
        for text in texts
    ]


def test_stranger_gets_the_same_responses_with_and_without_secrets() -> None:
    (calm, alerts), (full, alerts_among_secrets) = run_three_days(0), run_three_days(SECRET_COUNT)
    assert len(calm) > 20
    assert with_numbered_ids(full) == with_numbered_ids(calm)
    assert alerts_among_secrets == alerts != []


def test_secrets_do_not_move_the_opening_of_a_public_burst() -> None:
    opened_at = []
    for count in (0, 900):
        with system_with_devices() as api_client:
            secrets = (event(f"s{n}", author="bob", protected=True) for n in range(count))
            api_client.batch(*secrets, event("public", author="ada"))
            api_client.backend.sequence()
            api_client.backend.clock.advance(timedelta(milliseconds=1_500))
            opened_at.append([item["opened_at"] for item in api_client.inbox("u1").json()["items"]])
    assert opened_at == [["2026-01-05T12:00:00Z"]] * 2


def test_item_is_never_opened_in_the_future() -> None:
    with system_with_devices() as api_client:
        api_client.backend.clock.advance(timedelta(milliseconds=900))
        api_client.batch(*(event(f"s{n}", author="bob", protected=True) for n in range(200)))
        api_client.backend.sequence()
        assert {item["opened_at"] for item in api_client.inbox("u2").json()["items"]} == {"2026-01-05T12:00:00Z"}


def test_page_skips_many_secrets_without_being_empty() -> None:
    with system_with_devices() as api_client:
        publish(api_client, "a")
        publish_secrets(api_client, "s", 700)
        publish_secrets(api_client, "t", 700)
        [item] = api_client.inbox("u1").json()["items"]
        assert item["tweet"] == "ta"
        [missed] = api_client.gaps("u1", {"from": 0}).json()["items"]
        assert missed == item


def test_secrets_alone_change_no_byte_of_a_stranger_s_responses() -> None:
    with system_with_devices() as api_client:
        publish(api_client, "a")
        publish(api_client, "b")
        before = view(api_client)
        publish(api_client, *(f"s{n}" for n in range(SECRET_COUNT)), protected=True, advance=timedelta(0))
        api_client.backend.deliver()
        assert view(api_client) == before


def test_follower_of_the_protected_author_sees_the_bursts() -> None:
    with system_with_devices() as api_client:
        publish(api_client, "a")
        publish_secrets(api_client, "s", 3)
        assert [item["names"] for item in api_client.inbox("u2").json()["items"]] == [["bob"]] * 3 + [["ada"]]
        assert api_client.unread("u2") == {"count": 4, "more": False}


@pytest.mark.parametrize("field", ["burst", "next", "seen"])
def test_opaque_values_contain_no_readable_names(field: str) -> None:
    with system_with_devices() as api_client:
        publish(api_client, "a")
        publish(api_client, "b")
        page = api_client.inbox("u1", limit=1).json()
        text = (page["items"][0] | page)[field]
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        assert [name for name in (b"nova", b"mention", b"u1") if name in raw] == []


def test_burst_id_is_stable_and_differs_per_user() -> None:
    with system_with_devices() as api_client:
        publish(api_client, "a", advance=timedelta(seconds=1))
        [first] = api_client.inbox("u1").json()["items"]
        publish(api_client, "b")
        with TestClient(api_client.backend.app()) as again:
            [grown] = ApiClient(api_client.backend, again).inbox("u1").json()["items"]
        assert (first["burst"], first["count"], grown["count"]) == (grown["burst"], 1, 2)
        assert api_client.inbox("u2").json()["items"][0]["burst"] != first["burst"]
