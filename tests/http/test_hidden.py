"""What protected accounts say is nothing to a stranger: not by count, name, number, header, problem or alert."""

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
from notifier.ports.audience import ShardBlob
from tests.support.example_event import event
from tests.support.http_app import Edge, House

MANY = 300
"""More than a byte can count, so that no number keeps its length by luck."""
NOVA, BOB = (Subject(Kind.MENTION, UserId(name)) for name in ("nova", "bob"))
OPAQUE = re.compile(r"[\w-]{30,}|(?<=W/\")\w{24}")
"""Ids, cursors, seen tokens and tags."""


@contextmanager
def lived_in() -> Iterator[Edge]:
    """A house with phones; `u1` is a stranger to bob, whose tweets are protected, and `u2` follows him."""
    house = House()
    house.sets.put([ShardBlob(kind=SetKind.PUSH, owner=None, shard=0, bits=from_offsets([1, 2, 3]))])
    house.ports.devices.write([_phone(Member(n), house.clock.now()) for n in (1, 2, 3)])
    house.people.follow(UserId("u2"), BOB, house.clock.now() - timedelta(days=1))
    with TestClient(house.app(), raise_server_exceptions=False) as client:
        yield Edge(house, client)


def _phone(member: Member, now: datetime) -> Device:
    return Device(member=member, address=FirebaseToken(token=f"phone-{member}"), registered_at=now)


def said(edge: Edge, *ids: str, protected: bool = False, within: timedelta = timedelta(minutes=2)) -> None:
    """However many, they take the same time."""
    author = "bob" if protected else "ada"
    if ids:
        edge.batch(*(event(id, author=author, protected=protected) for id in ids))
        edge.house.sequence()
    edge.house.clock.advance(within)


def secrets(edge: Edge, which: str, n: int) -> None:
    said(edge, *(f"{which}-{k}" for k in range(n)), protected=True)


def lives(secret: int) -> tuple[list[str], list[object]]:
    """All that a stranger is ever told of a day, and what her phone was."""
    with lived_in() as edge:
        told: list[str] = []
        for day in ("a", "b", "c"):
            secrets(edge, f"before-{day}", secret)
            said(edge, day)
            secrets(edge, f"behind-{day}", min(secret, 9))
            edge.house.deliver()
            told += view(edge)
        told += view(edge, last=True)
        alerts = [sent for sent, device in edge.house.phones.arrived if device.member == 1]
        return told, [(sent.text, sent.collapse_id) for sent in alerts if sent.subject.kind is Kind.MENTION]


def view(edge: Edge, *, last: bool = False) -> list[str]:
    """Every answer that `u1` can get, with every byte of it."""
    pages = [edge.inbox("u1", limit=1)]
    while "next" in pages[-1].links:
        pages.append(edge.client.get(pages[-1].links["next"]["url"], headers=edge.bearer("u1")))
    gaps = [edge.gaps("u1", {"from": 0, "limit": 1})]
    while "next" in gaps[-1].links:
        gaps.append(edge.client.get(gaps[-1].links["next"]["url"], headers=edge.bearer("u1")))
    answers = [
        *pages,
        *gaps,
        edge.gaps("u1", {"from": 0}),
        edge.inbox("u1"),
        edge.client.get("/v1/inbox/unread", headers=edge.bearer("u1")),
    ]
    answers.append(edge.inbox("u1", {"If-None-Match": pages[0].headers["etag"]}, limit=1))
    if last:
        ids = [item["burst"] for page in pages for item in page.json()["items"]]
        answers.append(edge.put("/v1/inbox/marks", "u1", {"bursts": ids[:1], "mark": "unread"}))
        answers.append(edge.put("/v1/inbox/seen", "u1", {"token": pages[0].json()["seen"]}))
        answers.append(edge.inbox("u1"))
        answers.append(edge.put("/v1/inbox/marks", "u1", {"bursts": [ids[0] + "A"], "mark": "read"}))
        edge.house.people.unfollow(UserId("u1"), NOVA)
        answers.append(edge.put("/v1/inbox/marks", "u1", {"bursts": ids, "mark": "read"}))
        answers.append(edge.inbox("u1"))
    return [spelled(answer) for answer in answers]


def spelled(answer: httpx.Response) -> str:
    # What is left of the limit counts how often the test itself has looked.
    headers = {name: value for name, value in answer.headers.items() if name != "ratelimit"}
    return f"{answer.status_code}\n{headers}\n{answer.text}"


def named(told: Sequence[str]) -> list[str]:
    """Each opaque value as the how-manieth it is, and how long: all that can be known of it without the key."""
    names: dict[str, str] = {}
    return [
        OPAQUE.sub(lambda m: names.setdefault(m.group(), f"<{len(names)}, {len(m.group())} long>"), text)
        for text in told
    ]


def test_a_stranger_is_told_the_same_whether_or_not_there_are_secrets() -> None:
    (calm, alerts), (full, alerts_among_secrets) = lives(0), lives(MANY)
    assert len(calm) > 20
    assert named(full) == named(calm)
    assert alerts_among_secrets == alerts != []


def test_secrets_numbered_ahead_of_a_public_mention_do_not_move_its_opening() -> None:
    shown = []
    for many in (0, 900):
        with lived_in() as edge:
            secrets = (event(f"s{n}", author="bob", protected=True) for n in range(many))
            edge.batch(*secrets, event("public", author="ada"))
            edge.house.sequence()
            edge.house.clock.advance(timedelta(milliseconds=1_500))
            shown.append([item["opened_at"] for item in edge.inbox("u1").json()["items"]])
    assert shown == [["2026-01-05T12:00:00Z"]] * 2


def test_no_item_is_from_the_future() -> None:
    with lived_in() as edge:
        edge.house.clock.advance(timedelta(milliseconds=900))
        edge.batch(*(event(f"s{n}", author="bob", protected=True) for n in range(200)))
        edge.house.sequence()
        assert {item["opened_at"] for item in edge.inbox("u2").json()["items"]} == {"2026-01-05T12:00:00Z"}


def test_no_page_is_empty_for_the_many_secrets_it_walked_past() -> None:
    with lived_in() as edge:
        said(edge, "a")
        secrets(edge, "s", 700)
        secrets(edge, "t", 700)
        [item] = edge.inbox("u1").json()["items"]
        assert item["tweet"] == "ta"
        [missed] = edge.gaps("u1", {"from": 0}).json()["items"]
        assert missed == item


def test_not_a_byte_changes_while_only_secrets_happen() -> None:
    with lived_in() as edge:
        said(edge, "a")
        said(edge, "b")
        before = view(edge)
        said(edge, *(f"s{n}" for n in range(MANY)), protected=True, within=timedelta(0))
        edge.house.deliver()
        assert view(edge) == before


def test_whoever_follows_the_author_is_told() -> None:
    with lived_in() as edge:
        said(edge, "a")
        secrets(edge, "s", 3)
        assert [item["names"] for item in edge.inbox("u2").json()["items"]] == [["bob"]] * 3 + [["ada"]]
        assert edge.unread("u2") == {"count": 4, "more": False}


@pytest.mark.parametrize("what", ["burst", "next", "seen"])
def test_what_is_opaque_cannot_be_read(what: str) -> None:
    with lived_in() as edge:
        said(edge, "a")
        said(edge, "b")
        page = edge.inbox("u1", limit=1).json()
        text = (page["items"][0] | page)[what]
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        assert [word for word in (b"nova", b"mention", b"u1") if word in raw] == []


def test_an_id_stays_and_is_another_for_everybody_else() -> None:
    with lived_in() as edge:
        said(edge, "a", within=timedelta(seconds=1))
        [first] = edge.inbox("u1").json()["items"]
        said(edge, "b")
        with TestClient(edge.house.app()) as again:
            [grown] = Edge(edge.house, again).inbox("u1").json()["items"]
        assert (first["burst"], first["count"], grown["count"]) == (grown["burst"], 1, 2)
        assert edge.inbox("u2").json()["items"][0]["burst"] != first["burst"]
