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
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.push.device import Device, FirebaseToken
from notifier.ports.audience import ShardBitmap
from tests.support.example_event import event
from tests.support.in_memory_http_api import Edge, MemoryBackend

SECRET_COUNT = 300
"""More than one byte can count, so no number keeps its length by chance."""
NOVA, BOB = (Subject(Kind.MENTION, UserId(name)) for name in ("nova", "bob"))
OPAQUE = re.compile(r"[\w-]{30,}|(?<=W/\")\w{24}")
"""Matches ids, cursors, seen tokens and ETags."""


@contextmanager
def system_with_devices() -> Iterator[Edge]:
    """Yield a system with phones; bob is protected, `u2` follows him, and `u1` is a stranger to him."""
    backend = MemoryBackend()
    backend.sets.put([ShardBitmap(kind=SetKind.WITH_DEVICE, owner=None, shard=0, bits=from_offsets([1, 2, 3]))])
    backend.ports.devices.write([_phone(Member(n), backend.clock.now()) for n in (1, 2, 3)])
    backend.people.follow(UserId("u2"), BOB, backend.clock.now() - timedelta(days=1))
    with TestClient(backend.app(), raise_server_exceptions=False) as client:
        yield Edge(backend, client)


def _phone(member: Member, now: datetime) -> Device:
    return Device(member=member, address=FirebaseToken(token=f"phone-{member}"), registered_at=now)


def publish(edge: Edge, *ids: str, protected: bool = False, advance: timedelta = timedelta(minutes=2)) -> None:
    """Publish the mentions; the time it takes does not depend on their number."""
    author = "bob" if protected else "ada"
    if ids:
        edge.batch(*(event(id, author=author, protected=protected) for id in ids))
        edge.backend.sequence()
    edge.backend.clock.advance(advance)


def publish_secrets(edge: Edge, prefix: str, n: int) -> None:
    publish(edge, *(f"{prefix}-{k}" for k in range(n)), protected=True)


def run_three_days(secret: int) -> tuple[list[str], list[object]]:
    """Return every response to a stranger over three days, and every alert on her phone."""
    with system_with_devices() as edge:
        texts: list[str] = []
        for day in ("a", "b", "c"):
            publish_secrets(edge, f"before-{day}", secret)
            publish(edge, day)
            publish_secrets(edge, f"behind-{day}", min(secret, 9))
            edge.backend.deliver()
            texts += view(edge)
        texts += view(edge, last=True)
        alerts = [alert for alert, device in edge.backend.phones.arrived if device.member == 1]
        return texts, [(alert.text, alert.collapse_id) for alert in alerts if alert.subject.kind is Kind.MENTION]


def view(edge: Edge, *, last: bool = False) -> list[str]:
    """Return every response that `u1` can get, with all of its bytes."""
    pages = [edge.inbox("u1", limit=1)]
    while "next" in pages[-1].links:
        pages.append(edge.client.get(pages[-1].links["next"]["url"], headers=edge.bearer("u1")))
    gaps = [edge.gaps("u1", {"from": 0, "limit": 1})]
    while "next" in gaps[-1].links:
        gaps.append(edge.client.get(gaps[-1].links["next"]["url"], headers=edge.bearer("u1")))
    responses = [
        *pages,
        *gaps,
        edge.gaps("u1", {"from": 0}),
        edge.inbox("u1"),
        edge.client.get("/v1/inbox/unread", headers=edge.bearer("u1")),
    ]
    responses.append(edge.inbox("u1", {"If-None-Match": pages[0].headers["etag"]}, limit=1))
    if last:
        ids = [item["burst"] for page in pages for item in page.json()["items"]]
        responses.append(edge.put("/v1/inbox/marks", "u1", {"bursts": ids[:1], "mark": "unread"}))
        responses.append(edge.put("/v1/inbox/seen", "u1", {"token": pages[0].json()["seen"]}))
        responses.append(edge.inbox("u1"))
        responses.append(edge.put("/v1/inbox/marks", "u1", {"bursts": [ids[0] + "A"], "mark": "read"}))
        edge.backend.people.unfollow(UserId("u1"), NOVA)
        responses.append(edge.put("/v1/inbox/marks", "u1", {"bursts": ids, "mark": "read"}))
        responses.append(edge.inbox("u1"))
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
        with system_with_devices() as edge:
            secrets = (event(f"s{n}", author="bob", protected=True) for n in range(count))
            edge.batch(*secrets, event("public", author="ada"))
            edge.backend.sequence()
            edge.backend.clock.advance(timedelta(milliseconds=1_500))
            opened_at.append([item["opened_at"] for item in edge.inbox("u1").json()["items"]])
    assert opened_at == [["2026-01-05T12:00:00Z"]] * 2


def test_item_is_never_opened_in_the_future() -> None:
    with system_with_devices() as edge:
        edge.backend.clock.advance(timedelta(milliseconds=900))
        edge.batch(*(event(f"s{n}", author="bob", protected=True) for n in range(200)))
        edge.backend.sequence()
        assert {item["opened_at"] for item in edge.inbox("u2").json()["items"]} == {"2026-01-05T12:00:00Z"}


def test_page_skips_many_secrets_without_being_empty() -> None:
    with system_with_devices() as edge:
        publish(edge, "a")
        publish_secrets(edge, "s", 700)
        publish_secrets(edge, "t", 700)
        [item] = edge.inbox("u1").json()["items"]
        assert item["tweet"] == "ta"
        [missed] = edge.gaps("u1", {"from": 0}).json()["items"]
        assert missed == item


def test_secrets_alone_change_no_byte_of_a_stranger_s_responses() -> None:
    with system_with_devices() as edge:
        publish(edge, "a")
        publish(edge, "b")
        before = view(edge)
        publish(edge, *(f"s{n}" for n in range(SECRET_COUNT)), protected=True, advance=timedelta(0))
        edge.backend.deliver()
        assert view(edge) == before


def test_follower_of_the_protected_author_sees_the_bursts() -> None:
    with system_with_devices() as edge:
        publish(edge, "a")
        publish_secrets(edge, "s", 3)
        assert [item["names"] for item in edge.inbox("u2").json()["items"]] == [["bob"]] * 3 + [["ada"]]
        assert edge.unread("u2") == {"count": 4, "more": False}


@pytest.mark.parametrize("field", ["burst", "next", "seen"])
def test_opaque_values_contain_no_readable_names(field: str) -> None:
    with system_with_devices() as edge:
        publish(edge, "a")
        publish(edge, "b")
        page = edge.inbox("u1", limit=1).json()
        text = (page["items"][0] | page)[field]
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        assert [name for name in (b"nova", b"mention", b"u1") if name in raw] == []


def test_burst_id_is_stable_and_differs_per_user() -> None:
    with system_with_devices() as edge:
        publish(edge, "a", advance=timedelta(seconds=1))
        [first] = edge.inbox("u1").json()["items"]
        publish(edge, "b")
        with TestClient(edge.backend.app()) as again:
            [grown] = Edge(edge.backend, again).inbox("u1").json()["items"]
        assert (first["burst"], first["count"], grown["count"]) == (grown["burst"], 1, 2)
        assert edge.inbox("u2").json()["items"][0]["burst"] != first["burst"]
