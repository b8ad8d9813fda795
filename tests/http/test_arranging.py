"""What a person wants of everything: heard at once, kept with the person, and told to the indexer."""

from collections.abc import Sequence
from datetime import timedelta

import httpx
import pytest

from notifier.domain.audience.bitmap import from_offsets, members
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.ports.audience import ShardBlob
from notifier.ports.event_log import Record
from tests.http.problems import assert_problem
from tests.support.example_event import event
from tests.support.http_app import Edge

NOVA = Subject(Kind.MENTION, UserId("nova"))
UNSAID = {
    **{"volume": "all", "push": True, "asked": False, "quiet_hours": None},
    **{"time_zone": "UTC", "digest_hour": 18, "mentions": "all"},
}
NIGHT = {"from": "22:00", "to": "06:30"}


def arrange(edge: Edge, body: object, who: str = "u1") -> httpx.Response:
    return edge.client.patch("/v1/preferences", json=body, headers=edge.bearer(who))


def prefer(edge: Edge, body: object, who: str = "u1") -> None:
    assert edge.client.patch("/v1/preferences/mention:nova", json=body, headers=edge.bearer(who)).status_code == 200


def everything(edge: Edge, who: str = "u1") -> dict[str, object]:
    answer = edge.client.get("/v1/preferences", headers=edge.bearer(who))
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "private, no-store")
    return {name: value for name, value in answer.json().items() if name != "preferences"}


def shown(edge: Edge, who: str = "u1") -> int:
    """By the list, with which the badge agrees."""
    items = edge.inbox(who).json()["items"]
    assert edge.unread(who) == {"count": len(items), "more": False}
    return len(items)


def in_set(edge: Edge, kind: SetKind) -> list[int]:
    """By the bitmaps that fan-out goes by."""
    edge.house.sequence()
    return [int(m) for shard, bits in edge.house.sets.read(kind, None, [0]).items() for m in members(bits, shard)]


def later(edge: Edge) -> None:
    edge.house.clock.advance(timedelta(minutes=2))


def test_who_said_nothing_wants_everything(edge: Edge) -> None:
    assert everything(edge) == UNSAID


def test_what_is_said_stands_and_what_is_not_named_stays(edge: Edge) -> None:
    said = {"push": False, "quiet_hours": NIGHT, "time_zone": "Asia/Kathmandu"}
    answer = arrange(edge, said)
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "private, no-store")
    assert answer.json() == everything(edge) == {**UNSAID, **said}
    more = {"volume": "first", "push": True, "quiet_hours": None, "digest_hour": 0, "mentions": "none"}
    assert arrange(edge, more).json() == everything(edge) == {**UNSAID, **said, **more, "asked": True}
    assert everything(edge, "u2") == UNSAID


def test_off_is_only_what_is_about_oneself(edge: Edge) -> None:
    edge.mention()
    later(edge)
    edge.mention(whom="u1")
    assert shown(edge) == 2
    arrange(edge, {"volume": "off"})
    later(edge)
    edge.mention()
    assert (shown(edge), shown(edge, "u2")) == (1, 2)
    later(edge)
    edge.mention(whom="u1")
    assert shown(edge) == 2


def test_who_leaves_off_sees_what_opens_from_then_on(edge: Edge) -> None:
    edge.mention()
    arrange(edge, {"volume": "off"})
    later(edge)
    edge.mention()
    edge.house.clock.advance(timedelta(seconds=1))
    arrange(edge, {"volume": "all"})
    assert shown(edge) == 0
    later(edge)
    edge.mention()
    assert shown(edge) == 1


def test_the_first_of_a_day_and_what_is_said_of_one_account(edge: Edge) -> None:
    edge.mention()
    later(edge)
    edge.mention()
    arrange(edge, {"volume": "first"})
    assert shown(edge) == 1
    prefer(edge, {"volume": "all"})
    assert shown(edge) == 2
    prefer(edge, {"volume": "default"})
    assert shown(edge) == 1
    prefer(edge, {"volume": "all"})
    arrange(edge, {"volume": "off"})
    assert shown(edge) == 0


def test_fan_out_leaves_out_who_wants_less_of_everything(edge: Edge) -> None:
    arrange(edge, {"volume": "off"}, "u1")
    arrange(edge, {"volume": "first", "push": False}, "u2")
    arrange(edge, {"volume": "first"}, "u3")
    prefer(edge, {"volume": "all"}, "u3")
    phones = ShardBlob(kind=SetKind.PUSH, owner=None, shard=0, bits=from_offsets([1, 2, 3]))
    edge.house.sets.put([phones])
    assert [in_set(edge, kind) for kind in (SetKind.OVERALL_OFF, SetKind.OVERALL_FIRST, SetKind.NO_PUSH)] == [
        [1],
        [2, 3],
        [2],
    ]
    first, second = (sealed(edge) for _ in range(2))
    assert first == ({"overall_off": 1}, {2, 3}, {3})
    assert second == ({"overall_off": 1, "overall_first": 1}, {3}, {3})
    arrange(edge, {"volume": "all"}, "u1")
    arrange(edge, {"volume": "all", "push": True}, "u2")
    assert sealed(edge) == ({}, {1, 2, 3}, {1, 2, 3})


def sealed(edge: Edge) -> tuple[dict[str, int], set[int], set[int]]:
    """One more burst: who was left out by which rule, who has a row, and whom an alert was for."""
    later(edge)
    edge.mention()
    edge.house.deliver()
    burst = max(key for key in edge.house.bursts.by_key if key.subject == NOVA)
    (seal,) = edge.house.ports.seals.read(burst, [0]).values()
    rows = {int(m) for bits in seal.tiers.values() for m in members(bits, 0)}
    return dict(seal.suppressed), rows, {int(m) for m in members(seal.push, 0)}


def test_a_word_of_everything_is_effective_for_oneself_before_the_indexer_has_heard_of_it(edge: Edge) -> None:
    """How many seconds later fan-out follows is measured on a real service, in tests/browser/test_inbox_served.py."""
    edge.mention()
    arrange(edge, {"volume": "off"})
    assert shown(edge) == 0
    assert not edge.house.sets.read(SetKind.OVERALL_OFF, None, [0])
    assert in_set(edge, SetKind.OVERALL_OFF) == [1]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"volume": "loud"},
        {"volume": "default"},
        {"volume": None},
        {"push": "yes"},
        {"quiet_hours": {"from": "22:00"}},
        {"quiet_hours": {"from": "22:00", "to": "22:00"}},
        {"quiet_hours": {"from": "24:00", "to": "07:00"}},
        {"quiet_hours": {"from": "22:00:01", "to": "07:00"}},
        {"quiet_hours": {"from": "22:00+01:00", "to": "07:00"}},
        {"quiet_hours": {"from": "22", "to": "07"}},
        {"quiet_hours": "night"},
        {"time_zone": "Mars/Olympus"},
        {"time_zone": "../UTC"},
        {"time_zone": "E" * 65},
        {"time_zone": None},
        {"digest_hour": 24},
        {"digest_hour": -1},
        {"digest_hour": 7.5},
        {"mentions": "friends"},
        {"mentions": None},
    ],
)
def test_what_can_t_be_meant_is_refused_and_changes_nothing(edge: Edge, body: object) -> None:
    answer = arrange(edge, body)
    assert (answer.status_code, answer.json()["code"] in ("bad_preference", "refused")) == (400, True), answer.text
    assert answer.json().get("detail")
    assert everything(edge) == UNSAID


def test_of_everything_there_is_no_default(edge: Edge) -> None:
    told = arrange(edge, {"volume": "default"}).json()
    assert told["detail"] == "The volume is 'default'; there are all, first, digest, off."


def test_while_the_log_is_away_nothing_is_changed(edge: Edge) -> None:
    edge.house.broken.log = LogUnavailable()
    assert_problem(arrange(edge, {"volume": "off"}), 503, "log_unavailable")
    assert everything(edge) == UNSAID


def test_a_word_is_accepted_once_the_log_has_it(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the process dies behind the log: the indexer writes the person's row, too."""

    async def away(_: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(edge.house.reads.preferences, "say", away)
    assert arrange(edge, {"volume": "off", "time_zone": "Asia/Tokyo"}).json()["volume"] == "off"
    assert everything(edge) == UNSAID
    assert in_set(edge, SetKind.OVERALL_OFF) == [1]
    assert everything(edge) == {**UNSAID, "volume": "off", "time_zone": "Asia/Tokyo"}


def test_of_two_devices_that_change_different_things_both_are_heard(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second answers before the first has written."""
    append, others = edge.house.log.inner.append, [{"volume": "first"}]

    def appending(records: Sequence[Record]) -> None:
        if others:
            assert arrange(edge, others.pop()).status_code == 200
        append(records)

    monkeypatch.setattr(edge.house.log.inner, "append", appending)
    assert arrange(edge, {"push": False}).status_code == 200
    assert everything(edge) == {**UNSAID, "volume": "first", "push": False}
    assert (in_set(edge, SetKind.OVERALL_FIRST), in_set(edge, SetKind.NO_PUSH)) == ([1], [1])


def test_what_changes_nothing_is_not_said(edge: Edge) -> None:
    unsaid = {thing: value for thing, value in UNSAID.items() if thing != "push"}
    assert arrange(edge, unsaid).json() == UNSAID
    edge.house.sequence()
    assert edge.house.sets.read(SetKind.NO_PUSH, None, [0]) == {}


def test_who_says_that_alerts_are_wanted_asks_for_them_until_the_opposite_is_said(edge: Edge) -> None:
    assert in_set(edge, SetKind.ASKED) == []
    assert arrange(edge, {"push": True}).json() == everything(edge) == {**UNSAID, "asked": True}
    assert in_set(edge, SetKind.ASKED) == [1]
    assert arrange(edge, {"push": False}).json() == {**UNSAID, "push": False}
    assert (in_set(edge, SetKind.ASKED), in_set(edge, SetKind.NO_PUSH)) == ([], [1])


def test_what_was_kept_for_an_outage_is_forgotten_when_it_may_no_longer_be_shown(edge: Edge) -> None:
    edge.mention()
    assert shown(edge) == 1
    arrange(edge, {"volume": "off"})
    edge.house.broken.store = StoreUnavailable()
    assert edge.inbox("u1").json()["items"] == []


def test_whose_mentions_followers_are_told_of_counts_from_the_next_one_on(edge: Edge) -> None:
    edge.mention()
    later(edge)
    assert (
        arrange(edge, {"mentions": "none"}, "nova").json()["mentions"] == everything(edge, "nova")["mentions"] == "none"
    )
    edge.post(event("7"))
    assert edge.refusals("7") == {"nova": "not_wanted"}
    assert (shown(edge), shown(edge, "nova")) == (1, 2)
    arrange(edge, {"mentions": "verified"}, "nova")
    edge.post(event("8"))
    assert edge.refusals("8") == {"nova": "not_wanted"}
    arrange(edge, {"mentions": "all"}, "nova")
    later(edge)
    edge.post(event("9"))
    assert (edge.refusals("9"), shown(edge)) == ({"nova": None}, 2)
