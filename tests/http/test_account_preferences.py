"""Account-wide preferences: effective at once, validated, and passed on to the indexer."""

from collections.abc import Sequence
from datetime import timedelta

import httpx
import pytest

from notifier.domain.audience.bitmap import from_offsets, members
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.ports.audience import ShardBitmap
from notifier.ports.event_log import Record
from tests.http.error_response_checks import assert_problem
from tests.support.example_event import event
from tests.support.in_memory_http_api import Edge

NOVA = Subject(Kind.MENTION, UserId("nova"))
DEFAULTS = {
    **{"volume": "all", "push": True, "asked": False, "quiet_hours": None},
    **{"time_zone": "UTC", "digest_hour": 18, "mentions": "all"},
}
NIGHT = {"from": "22:00", "to": "06:30"}


def patch(edge: Edge, body: object, user: str = "u1") -> httpx.Response:
    return edge.client.patch("/v1/preferences", json=body, headers=edge.bearer(user))


def patch_subject(edge: Edge, body: object, user: str = "u1") -> None:
    assert edge.client.patch("/v1/preferences/mention:nova", json=body, headers=edge.bearer(user)).status_code == 200


def preferences(edge: Edge, user: str = "u1") -> dict[str, object]:
    response = edge.client.get("/v1/preferences", headers=edge.bearer(user))
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "private, no-store")
    return {name: value for name, value in response.json().items() if name != "preferences"}


def shown_count(edge: Edge, user: str = "u1") -> int:
    """Return the number of items, and check that the badge agrees."""
    items = edge.inbox(user).json()["items"]
    assert edge.unread(user) == {"count": len(items), "more": False}
    return len(items)


def in_set(edge: Edge, kind: SetKind) -> list[int]:
    """Return the members in the bitmap that fan-out reads."""
    edge.backend.sequence()
    return [int(m) for shard, bits in edge.backend.sets.read(kind, None, [0]).items() for m in members(bits, shard)]


def advance_past_burst(edge: Edge) -> None:
    edge.backend.clock.advance(timedelta(minutes=2))


def test_default_preferences_show_everything(edge: Edge) -> None:
    assert preferences(edge) == DEFAULTS


def test_patch_changes_only_the_given_fields(edge: Edge) -> None:
    changes = {"push": False, "quiet_hours": NIGHT, "time_zone": "Asia/Kathmandu"}
    response = patch(edge, changes)
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "private, no-store")
    assert response.json() == preferences(edge) == {**DEFAULTS, **changes}
    second = {"volume": "first", "push": True, "quiet_hours": None, "digest_hour": 0, "mentions": "none"}
    assert patch(edge, second).json() == preferences(edge) == {**DEFAULTS, **changes, **second, "asked": True}
    assert preferences(edge, "u2") == DEFAULTS


def test_volume_off_still_shows_bursts_about_oneself(edge: Edge) -> None:
    edge.mention()
    advance_past_burst(edge)
    edge.mention(account="u1")
    assert shown_count(edge) == 2
    patch(edge, {"volume": "off"})
    advance_past_burst(edge)
    edge.mention()
    assert (shown_count(edge), shown_count(edge, "u2")) == (1, 2)
    advance_past_burst(edge)
    edge.mention(account="u1")
    assert shown_count(edge) == 2


def test_volume_all_after_off_shows_only_later_bursts(edge: Edge) -> None:
    edge.mention()
    patch(edge, {"volume": "off"})
    advance_past_burst(edge)
    edge.mention()
    edge.backend.clock.advance(timedelta(seconds=1))
    patch(edge, {"volume": "all"})
    assert shown_count(edge) == 0
    advance_past_burst(edge)
    edge.mention()
    assert shown_count(edge) == 1


def test_subject_volume_overrides_account_volume_except_off(edge: Edge) -> None:
    edge.mention()
    advance_past_burst(edge)
    edge.mention()
    patch(edge, {"volume": "first"})
    assert shown_count(edge) == 1
    patch_subject(edge, {"volume": "all"})
    assert shown_count(edge) == 2
    patch_subject(edge, {"volume": "default"})
    assert shown_count(edge) == 1
    patch_subject(edge, {"volume": "all"})
    patch(edge, {"volume": "off"})
    assert shown_count(edge) == 0


def test_fanout_skips_members_by_account_preferences(edge: Edge) -> None:
    patch(edge, {"volume": "off"}, "u1")
    patch(edge, {"volume": "first", "push": False}, "u2")
    patch(edge, {"volume": "first"}, "u3")
    patch_subject(edge, {"volume": "all"}, "u3")
    phones = ShardBitmap(kind=SetKind.WITH_DEVICE, owner=None, shard=0, bits=from_offsets([1, 2, 3]))
    edge.backend.sets.put([phones])
    assert [in_set(edge, kind) for kind in (SetKind.OVERALL_OFF, SetKind.OVERALL_FIRST, SetKind.NO_PUSH)] == [
        [1],
        [2, 3],
        [2],
    ]
    first, second = (deliver_burst(edge) for _ in range(2))
    assert first == ({"overall_off": 1}, {2, 3}, {3})
    assert second == ({"overall_off": 1, "overall_first": 1}, {3}, {3})
    patch(edge, {"volume": "all"}, "u1")
    patch(edge, {"volume": "all", "push": True}, "u2")
    assert deliver_burst(edge) == ({}, {1, 2, 3}, {1, 2, 3})


def deliver_burst(edge: Edge) -> tuple[dict[str, int], set[int], set[int]]:
    """Deliver one more burst; return the suppressed counts, the members with a row, and those alerted."""
    advance_past_burst(edge)
    edge.mention()
    edge.backend.deliver()
    burst = max(key for key in edge.backend.bursts.by_key if key.subject == NOVA)
    (snapshot,) = edge.backend.ports.audience_snapshots.read(burst, [0]).values()
    rows = {int(m) for bits in snapshot.tiers.values() for m in members(bits, 0)}
    return dict(snapshot.suppressed), rows, {int(m) for m in members(snapshot.to_alert, 0)}


def test_account_volume_affects_the_inbox_before_it_is_indexed(edge: Edge) -> None:
    """tests/browser/test_inbox_on_real_service.py checks on a real service that fan-out follows within a minute."""
    edge.mention()
    patch(edge, {"volume": "off"})
    assert shown_count(edge) == 0
    assert not edge.backend.sets.read(SetKind.OVERALL_OFF, None, [0])
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
def test_invalid_preferences_are_rejected_and_change_nothing(edge: Edge, body: object) -> None:
    result = patch(edge, body)
    assert (result.status_code, result.json()["code"] in ("bad_preference", "refused")) == (400, True), result.text
    assert result.json().get("detail")
    assert preferences(edge) == DEFAULTS


def test_account_volume_has_no_default(edge: Edge) -> None:
    response = patch(edge, {"volume": "default"}).json()
    assert response["detail"] == "Invalid volume: 'default'; use one of all, first, digest, off."


def test_log_outage_changes_no_preferences(edge: Edge) -> None:
    edge.backend.broken.log = LogUnavailable()
    assert_problem(patch(edge, {"volume": "off"}), 503, "log_unavailable")
    assert preferences(edge) == DEFAULTS


def test_change_is_accepted_once_it_is_in_the_log(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may die after writing the log, so the indexer also writes the user's row."""

    async def unavailable(_: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(edge.backend.reads.preferences, "write_account", unavailable)
    assert patch(edge, {"volume": "off", "time_zone": "Asia/Tokyo"}).json()["volume"] == "off"
    assert preferences(edge) == DEFAULTS
    assert in_set(edge, SetKind.OVERALL_OFF) == [1]
    assert preferences(edge) == {**DEFAULTS, "volume": "off", "time_zone": "Asia/Tokyo"}


def test_concurrent_changes_to_different_fields_both_apply(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second request is answered before the first has written."""
    append, pending_changes = edge.backend.log.inner.append, [{"volume": "first"}]

    def append_after_second_change(records: Sequence[Record]) -> None:
        if pending_changes:
            assert patch(edge, pending_changes.pop()).status_code == 200
        append(records)

    monkeypatch.setattr(edge.backend.log.inner, "append", append_after_second_change)
    assert patch(edge, {"push": False}).status_code == 200
    assert preferences(edge) == {**DEFAULTS, "volume": "first", "push": False}
    assert (in_set(edge, SetKind.OVERALL_FIRST), in_set(edge, SetKind.NO_PUSH)) == ([1], [1])


def test_unchanged_preferences_are_not_logged(edge: Edge) -> None:
    unchanged = {name: value for name, value in DEFAULTS.items() if name != "push"}
    assert patch(edge, unchanged).json() == DEFAULTS
    edge.backend.sequence()
    assert edge.backend.sets.read(SetKind.NO_PUSH, None, [0]) == {}


def test_push_true_asks_for_alerts_until_push_false(edge: Edge) -> None:
    assert in_set(edge, SetKind.PUSH_OPT_IN) == []
    assert patch(edge, {"push": True}).json() == preferences(edge) == {**DEFAULTS, "asked": True}
    assert in_set(edge, SetKind.PUSH_OPT_IN) == [1]
    assert patch(edge, {"push": False}).json() == {**DEFAULTS, "push": False}
    assert (in_set(edge, SetKind.PUSH_OPT_IN), in_set(edge, SetKind.NO_PUSH)) == ([], [1])


def test_outage_copy_is_dropped_when_the_volume_hides_it(edge: Edge) -> None:
    edge.mention()
    assert shown_count(edge) == 1
    patch(edge, {"volume": "off"})
    edge.backend.broken.store = StoreUnavailable()
    assert edge.inbox("u1").json()["items"] == []


def test_mentions_setting_applies_to_the_next_mention(edge: Edge) -> None:
    edge.mention()
    advance_past_burst(edge)
    assert (
        patch(edge, {"mentions": "none"}, "nova").json()["mentions"] == preferences(edge, "nova")["mentions"] == "none"
    )
    edge.post(event("7"))
    assert edge.refusals("7") == {"nova": "not_wanted"}
    assert (shown_count(edge), shown_count(edge, "nova")) == (1, 2)
    patch(edge, {"mentions": "verified"}, "nova")
    edge.post(event("8"))
    assert edge.refusals("8") == {"nova": "not_wanted"}
    patch(edge, {"mentions": "all"}, "nova")
    advance_past_burst(edge)
    edge.post(event("9"))
    assert (edge.refusals("9"), shown_count(edge)) == ({"nova": None}, 2)
