"""Keys of services: each opens what its scopes say, from a second after it was added until a second after it went."""

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

from notifier.api.auth.identity import identity_of
from notifier.api.auth.scopes import Scope
from notifier.api.auth.service_keys import FILE, LOOKS_EVERY, Doorman, KeyBook, Keys, made
from notifier.config import Settings
from notifier.domain.errors import BadSetting
from notifier.domain.upstream.validation import (
    APPROVED_TYPE,
    BLOCKED_TYPE,
    CHANGED_TYPE,
    EVENT_TYPE,
    FOLLOWED_TYPE,
    SEEN_TYPE,
    UNBLOCKED_TYPE,
)
from tests.http.problems import assert_problem
from tests.support.example_event import event
from tests.support.fakes.clock import START
from tests.support.http_app import Edge, House

ONE, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"


@dataclass(slots=True)
class Time:
    """The second that a doorman's clock shows."""

    second: float = 0.0


@dataclass(frozen=True, slots=True)
class Desk:
    edge: Edge
    book: KeyBook
    time: Time

    def add(self, name: str, *scopes: Scope) -> str:
        """It counts by the next request."""
        text, kept = made(name, scopes, self.book.pepper, START)
        with self.book.changed() as keys:
            keys.append(kept)
        self.later()
        return text

    def later(self) -> None:
        """Every process has looked at the book."""
        self.time.second += LOOKS_EVERY

    def post(self, key: str, *events: object, dry_run: bool = False) -> httpx.Response:
        content, kind = (list(events), BATCH) if len(events) > 1 else (events[0], ONE)
        at = "/v1/events?dry_run=true" if dry_run else "/v1/events"
        bearer = {"Authorization": f"Bearer {key}", "Content-Type": kind}
        return self.edge.client.post(at, content=json.dumps(content), headers=bearer)

    def get(self, key: str, path: str) -> httpx.Response:
        return self.edge.client.get(path, headers={"Authorization": f"Bearer {key}"})


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    house, time = House(Settings(data=tmp_path)), Time()
    own = identity_of(house.system.settings, house.keys, house.system.metrics)
    identity = replace(own, doorman=Doorman(own.doorman.book, lambda: time.second))
    with TestClient(house.app(identity=identity), raise_server_exceptions=False) as client:
        yield Desk(Edge(house, client), identity.doorman.book, time)


def follow(id: str = "f1") -> dict[str, object]:
    data = {"follower": "u1", "followed": "nova", "sequence": 7}
    return {**event(id), "type": FOLLOWED_TYPE, "data": data}


def block(id: str = "b1", type: str = BLOCKED_TYPE) -> dict[str, object]:
    return {**event(id), "type": type, "data": {"blocker": "u1", "blocked": "nova", "sequence": 7}}


def account(id: str = "a1", **said: bool) -> dict[str, object]:
    return {**event(id), "type": CHANGED_TYPE, "data": {"user": "nova", "sequence": 7, **(said or {"vip": True})}}


def sighting(id: str = "s1") -> dict[str, object]:
    return {**event(id), "type": SEEN_TYPE, "data": {"user": "u1"}}


def test_a_key_brings_what_its_scope_says(desk: Desk) -> None:
    tweets, graph = desk.add("tweets", Scope.EVENTS), desk.add("graph", Scope.FOLLOWS)
    assert [desk.post(tweets, event()).status_code, desk.post(graph, follow()).status_code] == [202, 202]
    assert desk.get(tweets, "/v1/events/1").status_code == 200
    assert desk.post(tweets, event("2"), dry_run=True).status_code == 200
    approved = {**follow("f3"), "type": APPROVED_TYPE}
    assert desk.post(graph, block(), block("b2", UNBLOCKED_TYPE), approved).status_code == 202
    accounts = desk.add("accounts", Scope.ACCOUNTS)
    assert desk.post(accounts, account()).status_code == 202
    assert desk.post(desk.add("logins", Scope.ACTIVITY), sighting()).status_code == 202
    both = desk.add("both", Scope.EVENTS, Scope.FOLLOWS)
    assert desk.post(both, event("3"), follow("f2")).status_code == 202


def test_a_key_without_the_scope_is_told_which_it_lacks_and_nothing_is_taken(desk: Desk) -> None:
    tweets, graph = desk.add("tweets", Scope.EVENTS), desk.add("graph", Scope.FOLLOWS)
    for key, answer, scope in (
        (tweets, desk.post(tweets, follow()), "follows"),
        (tweets, desk.post(tweets, event(), follow()), "follows"),
        (tweets, desk.post(tweets, block()), "follows"),
        (tweets, desk.post(tweets, event(), block("b2", UNBLOCKED_TYPE)), "follows"),
        (tweets, desk.post(tweets, {**follow(), "type": APPROVED_TYPE}), "follows"),
        (tweets, desk.post(tweets, follow(), dry_run=True), "follows"),
        (tweets, desk.get(tweets, "/v1/system"), "operate"),
        (tweets, desk.get(tweets, "/metrics"), "read-metrics"),
        (graph, desk.post(graph, event()), "events"),
        (graph, desk.post(graph, event(), event("2")), "events"),
        (graph, desk.post(graph, event(), dry_run=True), "events"),
        (graph, desk.get(graph, "/v1/events/1"), "events"),
        (graph, desk.post(graph, account()), "accounts"),
        (graph, desk.post(graph, follow(), account()), "accounts"),
        (graph, desk.post(graph, follow(), sighting()), "activity"),
    ):
        detail = assert_problem(answer, 403, "forbidden")["detail"]
        assert f"hasn't the scope {scope}; it has" in detail
        assert key not in answer.text
    assert desk.edge.fate("1").status_code == 404


def test_what_a_key_may_not_bring_is_not_hidden_by_what_cannot_be_taken_yet(desk: Desk) -> None:
    """Whether an event is from the future depends on when it is read; what it is doesn't."""
    tweets = desk.add("tweets", Scope.EVENTS)
    tomorrow = {**follow(), "time": (START + timedelta(days=1)).isoformat()}
    assert desk.post(tweets, tomorrow).status_code == 403
    for types in ([EVENT_TYPE, FOLLOWED_TYPE], [FOLLOWED_TYPE, EVENT_TYPE]):
        said = ", ".join(f'"type": "{one}"' for one in types)
        body = json.dumps(follow()).replace(f'"type": "{FOLLOWED_TYPE}"', said)
        headers = {"Authorization": f"Bearer {tweets}", "Content-Type": ONE}
        assert desk.edge.client.post("/v1/events", content=body, headers=headers).status_code in (400, 403)


def test_what_cannot_be_read_has_its_own_name(desk: Desk) -> None:
    tweets = desk.add("tweets", Scope.EVENTS)
    assert_problem(desk.post(tweets, {"type": "another"}), 400, "bad_event")
    assert [one["status"] for one in desk.post(tweets, event(), {}).json()["results"]] == ["accepted", "refused"]


def test_a_service_changes_its_key_without_a_moment_in_which_none_counts(desk: Desk) -> None:
    old = desk.add("tweets", Scope.EVENTS)
    new = desk.add("tweets", Scope.EVENTS)
    assert [desk.post(key, event(key[-4:])).status_code for key in (old, new)] == [202, 202]
    with desk.book.changed() as keys:
        del keys[0]
    assert desk.post(old, event("2")).status_code == 202
    desk.later()
    assert [desk.post(key, event("3")).status_code for key in (old, new)] == [401, 202]


def test_a_key_opens_nobody_s_inbox(desk: Desk) -> None:
    key = desk.add("all", *Scope)
    assert_problem(desk.get(key, "/v1/inbox"), 403, "forbidden")


def test_a_book_that_cannot_be_read_changes_nothing_and_one_that_went_closes_the_door(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    key = desk.add("tweets", Scope.EVENTS)
    good = desk.book.path.read_bytes()
    assert desk.post(key, event()).status_code == 202
    desk.book.path.write_bytes(good[:-20])
    desk.later()
    assert desk.post(key, event("2")).status_code == 202
    assert [record.levelno for record in caplog.records if "service keys" in record.message] == [logging.ERROR]
    with pytest.raises(BadSetting):
        House(desk.edge.house.system.settings).app()
    desk.book.path.unlink()
    desk.later()
    assert desk.post(key, event("3")).status_code == 401


def test_no_key_is_kept_nor_said_and_the_book_is_for_its_owner_alone(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = desk.add("tweets", Scope.EVENTS)
    answers = [desk.post(key, event()), desk.get(key, "/v1/system"), desk.get(key + "x", "/v1/system")]
    assert [answer.status_code for answer in answers] == [202, 403, 401]
    said = [desk.book.path.read_text(), caplog.text, repr(desk.book), *(answer.text for answer in answers)]
    assert not any(key in text for text in said)
    assert desk.book.pepper.hex() not in desk.book.path.read_text()
    assert stat.S_IMODE(desk.book.path.stat().st_mode) == 0o600


def test_a_book_of_another_house_opens_nothing(desk: Desk, tmp_path: Path) -> None:
    """Who can write to the book, and hasn't the secret, makes no key of it."""
    other = Keys(secret="another secret that is long enough", service_key="k")
    key, kept = made("tweets", list(Scope), KeyBook.of(Settings(data=tmp_path), other).pepper, START)
    with desk.book.changed() as keys:
        keys.append(kept)
    desk.later()
    assert desk.post(key, event()).status_code == 401


def test_of_several_who_change_the_book_at_once_everybody_is_heard(tmp_path: Path) -> None:
    book = KeyBook(path=tmp_path / FILE, pepper=b"pepper")

    def add(number: int) -> None:
        with book.changed() as keys:
            keys.append(made(f"service-{number}", [Scope.EVENTS], book.pepper, START)[1])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(40)))
    assert {key.name for key in book.read()} == {f"service-{number}" for number in range(40)}
    assert {path.name for path in tmp_path.iterdir()} == {FILE, f".{FILE}.lock"}


def test_a_change_that_fails_leaves_the_book_as_it_was(tmp_path: Path) -> None:
    book = KeyBook(path=tmp_path / FILE, pepper=b"pepper")

    def fail() -> None:
        with book.changed() as keys:
            keys.append(made("a", [Scope.EVENTS], book.pepper, START)[1])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert book.read() == ()
