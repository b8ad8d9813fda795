"""What a person wants of whom: heard at once, kept with the person, and told to the indexer."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import httpx
import pytest

from notifier.domain.audience.bitmap import members
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.ports.directory import DirectoryEntry
from notifier.ports.event_log import Record
from tests.http.problems import assert_problem
from tests.support.fakes.clock import START
from tests.support.http_app import Edge

NOVA = Subject(Kind.MENTION, UserId("nova"))
ALL = {"subject": "mention:nova", "volume": "default", "muted_until": None}


def prefer(edge: Edge, body: object, *, of: str = "mention:nova", who: str = "u1") -> httpx.Response:
    return edge.client.patch(f"/v1/preferences/{of}", json=body, headers=edge.bearer(who))


def preferences(edge: Edge, who: str = "u1") -> list[dict[str, object]]:
    answer = edge.client.get("/v1/preferences", headers=edge.bearer(who))
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "private, no-store")
    found: list[dict[str, object]] = answer.json()["preferences"]
    return found


def shown(edge: Edge, who: str = "u1") -> list[str]:
    return [item["tweet"] for item in edge.inbox(who).json()["items"]]


def left_out(edge: Edge, kind: SetKind) -> list[int]:
    """By the bitmaps that fan-out goes by."""
    edge.house.sequence()
    return [
        int(member) for shard, bits in edge.house.sets.read(kind, NOVA, [0]).items() for member in members(bits, shard)
    ]


def test_of_whom_nothing_was_said_everything_is_wanted(edge: Edge) -> None:
    assert preferences(edge) == []


def test_a_mute_hides_what_was_and_what_comes_until_it_is_taken_back(edge: Edge) -> None:
    edge.mention()
    answer = prefer(edge, {"muted_until": "forever"})
    assert (answer.status_code, answer.json()) == (200, {**ALL, "muted_until": "forever"})
    assert (shown(edge), preferences(edge), len(shown(edge, "u2"))) == ([], [answer.json()], 1)
    edge.house.clock.advance(timedelta(minutes=2))
    edge.mention()
    assert shown(edge) == []
    edge.house.clock.advance(timedelta(seconds=1))
    assert prefer(edge, {"muted_until": None}).json() == ALL
    edge.house.clock.advance(timedelta(minutes=2))
    edge.mention()
    assert (len(shown(edge)), len(shown(edge, "u2")), preferences(edge)) == (1, 3, [])


def test_a_mute_for_a_while_ends_by_itself(edge: Edge) -> None:
    until = START + timedelta(hours=1)
    assert prefer(edge, {"muted_until": until.isoformat()}).json()["muted_until"] == "2026-01-05T13:00:00Z"
    edge.mention()
    assert shown(edge) == []
    edge.house.clock.advance(timedelta(hours=1))
    assert (shown(edge), preferences(edge)) == ([], [])
    edge.mention()
    assert len(shown(edge)) == 1


@pytest.mark.parametrize(("volume", "seen"), [("first", 1), ("off", 0), ("all", 2)])
def test_the_volume_says_how_much_is_shown(edge: Edge, volume: str, seen: int) -> None:
    edge.mention()
    edge.house.clock.advance(timedelta(minutes=2))
    edge.mention()
    assert prefer(edge, {"volume": volume}).json() == {**ALL, "volume": volume}
    assert len(shown(edge)) == seen


def test_who_leaves_off_sees_what_opens_from_then_on(edge: Edge) -> None:
    prefer(edge, {"volume": "off"})
    edge.mention()
    edge.house.clock.advance(timedelta(minutes=2))
    prefer(edge, {"volume": "all"})
    edge.mention()
    assert len(shown(edge)) == 1


def test_what_is_not_named_stays(edge: Edge) -> None:
    prefer(edge, {"volume": "first"})
    assert prefer(edge, {"muted_until": "forever"}).json() == {**ALL, "volume": "first", "muted_until": "forever"}
    assert prefer(edge, {"volume": "off"}).json() == {**ALL, "volume": "off", "muted_until": "forever"}


def test_fan_out_leaves_out_who_muted_and_who_wants_less(edge: Edge) -> None:
    prefer(edge, {"muted_until": "forever"}, who="u1")
    prefer(edge, {"volume": "off"}, who="u2")
    prefer(edge, {"muted_until": (START + timedelta(hours=1)).isoformat()}, who="u3")
    assert (left_out(edge, SetKind.MUTED), left_out(edge, SetKind.OFF)) == ([1], [2])
    prefer(edge, {"muted_until": None}, who="u1")
    prefer(edge, {"volume": "first"}, who="u2")
    assert (left_out(edge, SetKind.MUTED), left_out(edge, SetKind.OFF), left_out(edge, SetKind.FIRST)) == ([], [], [2])


def test_one_may_say_how_much_is_wanted_of_whom_one_doesn_t_follow(edge: Edge) -> None:
    assert prefer(edge, {"muted_until": "forever"}, of="mention:ada").status_code == 200
    assert [said["subject"] for said in preferences(edge)] == ["mention:ada"]
    assert preferences(edge, "u2") == []


def test_what_is_said_twice_is_said_once(edge: Edge) -> None:
    assert prefer(edge, {"volume": "first"}).json() == prefer(edge, {"volume": "first"}).json()
    assert left_out(edge, SetKind.FIRST) == [1]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"volume": "loud"},
        {"volume": None},
        {"muted_until": "2026-01-05T11:59:59Z"},
        {"muted_until": "2029-01-05T12:00:00Z"},
        {"muted_until": "2026-01-05T13:00:00"},
        {"muted_until": "tomorrow"},
        {"muted_until": 7},
        [],
        "off",
    ],
)
def test_what_is_no_preference_is_refused_and_changes_nothing(edge: Edge, body: object) -> None:
    answer = prefer(edge, body)
    assert answer.status_code == 400
    assert_problem(answer, 400, answer.json()["code"])
    assert answer.json()["code"] in ("bad_preference", "refused")
    assert preferences(edge) == []


def test_whose_volume_there_is_not_is_told_which_there_are(edge: Edge) -> None:
    assert prefer(edge, {"volume": "loud"}).json()["detail"] == (
        "The volume is 'loud'; there are default, all, first, digest, off."
    )


@pytest.mark.parametrize(
    ("subject", "status", "code"),
    [
        ("self:u1", 400, "bad_preference"),
        ("nova", 400, "bad_subject"),
        ("group:nova", 400, "bad_subject"),
        ("mention:nobody", 404, "not_found"),
        ("mention:gone", 404, "not_found"),
        ("mention:%2F%2Fnova", 404, "not_found"),
    ],
)
def test_only_an_account_that_exists_can_be_named(edge: Edge, subject: str, status: int, code: str) -> None:
    assert_problem(prefer(edge, {"volume": "off"}, of=subject), status, code)


def test_while_the_log_is_away_nothing_is_changed(edge: Edge) -> None:
    edge.house.broken.log = LogUnavailable()
    assert_problem(prefer(edge, {"volume": "off"}), 503, "log_unavailable")
    assert preferences(edge) == []


def test_the_answer_is_of_the_moment_behind_the_change(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, now = edge.house.clock, edge.house.clock.now

    def ticking() -> datetime:
        clock.advance(timedelta(milliseconds=1))
        return now()

    monkeypatch.setattr(clock, "now", ticking)
    for said in ({"muted_until": "forever"}, {"volume": "off"}):
        prefer(edge, said)
    assert prefer(edge, {"muted_until": None}).json() == {**ALL, "volume": "off"}
    assert prefer(edge, {"volume": "default"}).json() == ALL


def test_of_two_devices_that_change_different_things_both_are_heard(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second answers before the first has written."""
    append, others = edge.house.log.inner.append, [{"volume": "first"}]

    def appending(records: Sequence[Record]) -> None:
        if others:
            assert prefer(edge, others.pop()).status_code == 200
        append(records)

    monkeypatch.setattr(edge.house.log.inner, "append", appending)
    assert prefer(edge, {"muted_until": "forever"}).status_code == 200
    assert preferences(edge) == [{**ALL, "volume": "first", "muted_until": "forever"}]
    assert (left_out(edge, SetKind.MUTED), left_out(edge, SetKind.FIRST)) == ([1], [1])


def test_what_changes_nothing_is_not_said(edge: Edge) -> None:
    assert prefer(edge, {"muted_until": None}).json() == prefer(edge, {"volume": "default"}).json() == ALL
    edge.house.sequence()
    assert edge.house.sets.read(SetKind.MUTED, NOVA, [0]) == {}


def test_a_mute_is_accepted_once_the_log_has_it(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(edge.house.reads.preferences, "write", away)
    assert prefer(edge, {"muted_until": "forever"}).json()["muted_until"] == "forever"
    assert preferences(edge) == []
    assert left_out(edge, SetKind.MUTED) == [1]
    assert [said["muted_until"] for said in preferences(edge)] == ["forever"]


def test_whom_was_deleted_since_can_still_be_unmuted(edge: Edge) -> None:
    prefer(edge, {"muted_until": "forever"}, of="mention:bob")
    edge.house.directory.enrol([DirectoryEntry(user=UserId("bob"), member=Member(5), deleted=True)])
    assert prefer(edge, {"muted_until": None}, of="mention:bob").status_code == 200
    assert preferences(edge) == []


def test_what_was_kept_for_an_outage_is_forgotten_when_it_may_no_longer_be_shown(edge: Edge) -> None:
    edge.mention()
    assert len(shown(edge)) == 1
    prefer(edge, {"muted_until": "forever"})
    edge.house.broken.store = StoreUnavailable()
    assert edge.inbox("u1").json()["items"] == []
