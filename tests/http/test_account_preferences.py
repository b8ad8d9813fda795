"""Account-wide preferences: effective at once, validated, and passed on to the indexer."""

from collections.abc import Sequence
from datetime import timedelta

import httpx
import pytest

from notifier.domain.audience.bitmap import from_offsets, members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.errors import DiskFull, LogUnavailable, NotifierError, StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.ports.audience import ShardBitmap
from notifier.ports.event_log_and_dead_letters import Record
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.in_memory_http_api import ApiClient

NOVA = Subject(Kind.MENTION, UserId("nova"))
DEFAULTS = {
    **{"volume": "all", "push": True, "asked": False, "quiet_hours": None},
    **{"time_zone": "UTC", "digest_hour": 18, "mentions": "all"},
}
NIGHT = {"from": "22:00", "to": "06:30"}


def patch(api_client: ApiClient, body: object, user: str = "u1") -> httpx.Response:
    return api_client.http.patch("/v1/preferences", json=body, headers=api_client.bearer(user))


def patch_subject(api_client: ApiClient, body: object, user: str = "u1") -> None:
    assert (
        api_client.http.patch("/v1/preferences/mention:nova", json=body, headers=api_client.bearer(user)).status_code
        == 200
    )


def preferences(api_client: ApiClient, user: str = "u1") -> dict[str, object]:
    response = api_client.http.get("/v1/preferences", headers=api_client.bearer(user))
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "private, no-store")
    return {name: value for name, value in response.json().items() if name != "preferences"}


def shown_count(api_client: ApiClient, user: str = "u1") -> int:
    """Return the number of items, and check that the badge agrees."""
    items = api_client.inbox(user).json()["items"]
    assert api_client.unread(user) == {"count": len(items), "more": False}
    return len(items)


def in_set(api_client: ApiClient, kind: SetKind) -> list[int]:
    """Return the members in the bitmap that fan-out reads."""
    api_client.backend.sequence()
    return [
        int(m) for shard, bits in api_client.backend.sets.read(kind, None, [0]).items() for m in members(bits, shard)
    ]


def advance_past_burst(api_client: ApiClient) -> None:
    api_client.backend.clock.advance(timedelta(minutes=2))


def test_default_preferences_show_everything(api_client: ApiClient) -> None:
    assert preferences(api_client) == DEFAULTS


def test_patch_changes_only_the_given_fields(api_client: ApiClient) -> None:
    changes = {"push": False, "quiet_hours": NIGHT, "time_zone": "Asia/Kathmandu"}
    response = patch(api_client, changes)
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "private, no-store")
    assert response.json() == preferences(api_client) == {**DEFAULTS, **changes}
    second = {"volume": "first", "push": True, "quiet_hours": None, "digest_hour": 0, "mentions": "none"}
    assert (
        patch(api_client, second).json() == preferences(api_client) == {**DEFAULTS, **changes, **second, "asked": True}
    )
    assert preferences(api_client, "u2") == DEFAULTS


def test_volume_off_still_shows_bursts_about_oneself(api_client: ApiClient) -> None:
    api_client.mention()
    advance_past_burst(api_client)
    api_client.mention(account="u1")
    assert shown_count(api_client) == 2
    patch(api_client, {"volume": "off"})
    advance_past_burst(api_client)
    api_client.mention()
    assert (shown_count(api_client), shown_count(api_client, "u2")) == (1, 2)
    advance_past_burst(api_client)
    api_client.mention(account="u1")
    assert shown_count(api_client) == 2


def test_volume_all_after_off_shows_only_later_bursts(api_client: ApiClient) -> None:
    api_client.mention()
    patch(api_client, {"volume": "off"})
    advance_past_burst(api_client)
    api_client.mention()
    api_client.backend.clock.advance(timedelta(seconds=1))
    patch(api_client, {"volume": "all"})
    assert shown_count(api_client) == 0
    advance_past_burst(api_client)
    api_client.mention()
    assert shown_count(api_client) == 1


def test_subject_volume_overrides_account_volume_except_off(api_client: ApiClient) -> None:
    api_client.mention()
    advance_past_burst(api_client)
    api_client.mention()
    patch(api_client, {"volume": "first"})
    assert shown_count(api_client) == 1
    patch_subject(api_client, {"volume": "all"})
    assert shown_count(api_client) == 2
    patch_subject(api_client, {"volume": "default"})
    assert shown_count(api_client) == 1
    patch_subject(api_client, {"volume": "all"})
    patch(api_client, {"volume": "off"})
    assert shown_count(api_client) == 0


def test_fanout_skips_members_by_account_preferences(api_client: ApiClient) -> None:
    patch(api_client, {"volume": "off"}, "u1")
    patch(api_client, {"volume": "first", "push": False}, "u2")
    patch(api_client, {"volume": "first"}, "u3")
    patch_subject(api_client, {"volume": "all"}, "u3")
    phones = ShardBitmap(kind=SetKind.WITH_DEVICE, owner=None, shard=0, bits=from_offsets([1, 2, 3]))
    api_client.backend.sets.put([phones])
    assert [in_set(api_client, kind) for kind in (SetKind.OVERALL_OFF, SetKind.OVERALL_FIRST, SetKind.NO_PUSH)] == [
        [1],
        [2, 3],
        [2],
    ]
    first, second = (deliver_burst(api_client) for _ in range(2))
    assert first == ({"overall_off": 1}, {2, 3}, {3})
    assert second == ({"overall_off": 1, "overall_first": 1}, {3}, {3})
    patch(api_client, {"volume": "all"}, "u1")
    patch(api_client, {"volume": "all", "push": True}, "u2")
    assert deliver_burst(api_client) == ({}, {1, 2, 3}, {1, 2, 3})


def deliver_burst(api_client: ApiClient) -> tuple[dict[str, int], set[int], set[int]]:
    """Deliver one more burst; return the suppressed counts, the members with a row, and those alerted."""
    advance_past_burst(api_client)
    api_client.mention()
    api_client.backend.deliver()
    burst = max(key for key in api_client.backend.bursts.by_key if key.subject == NOVA)
    (snapshot,) = api_client.backend.ports.audience_snapshots.read(burst, [0]).values()
    rows = {int(m) for bits in snapshot.tiers.values() for m in members(bits, 0)}
    return dict(snapshot.suppressed_counts), rows, {int(m) for m in members(snapshot.to_alert, 0)}


def test_account_volume_affects_the_inbox_before_it_is_indexed(api_client: ApiClient) -> None:
    """tests/browser/test_inbox_on_real_service.py checks on a real service that fan-out follows within a minute."""
    api_client.mention()
    patch(api_client, {"volume": "off"})
    assert shown_count(api_client) == 0
    assert not api_client.backend.sets.read(SetKind.OVERALL_OFF, None, [0])
    assert in_set(api_client, SetKind.OVERALL_OFF) == [1]


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
def test_invalid_preferences_are_rejected_and_change_nothing(api_client: ApiClient, body: object) -> None:
    result = patch(api_client, body)
    assert (result.status_code, result.json()["code"] in ("bad_preference", "refused")) == (400, True), result.text
    assert result.json().get("detail")
    assert preferences(api_client) == DEFAULTS


def test_account_volume_has_no_default(api_client: ApiClient) -> None:
    response = patch(api_client, {"volume": "default"}).json()
    assert response["detail"] == "Invalid volume: 'default'; use one of all, first, digest, off."


def test_log_outage_changes_no_preferences(api_client: ApiClient) -> None:
    api_client.backend.port_errors.log = LogUnavailable()
    assert_problem(patch(api_client, {"volume": "off"}), 503, "log_unavailable")
    assert preferences(api_client) == DEFAULTS


@pytest.mark.parametrize("error", [StoreUnavailable, DiskFull])
def test_change_is_accepted_once_it_is_in_the_log(
    api_client: ApiClient, monkeypatch: pytest.MonkeyPatch, error: type[NotifierError]
) -> None:
    """The process may die after writing the log, so the indexer also writes the user's row."""

    async def unavailable(_: object) -> None:
        raise error

    monkeypatch.setattr(api_client.backend.reads.preferences, "write_account", unavailable)
    assert patch(api_client, {"volume": "off", "time_zone": "Asia/Tokyo"}).json()["volume"] == "off"
    assert preferences(api_client) == DEFAULTS
    assert in_set(api_client, SetKind.OVERALL_OFF) == [1]
    assert preferences(api_client) == {**DEFAULTS, "volume": "off", "time_zone": "Asia/Tokyo"}


def test_concurrent_changes_to_different_fields_both_apply(
    api_client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request is answered before the first has written."""
    append, pending_changes = api_client.backend.log.inner.append, [{"volume": "first"}]

    def append_after_second_change(records: Sequence[Record]) -> None:
        if pending_changes:
            assert patch(api_client, pending_changes.pop()).status_code == 200
        append(records)

    monkeypatch.setattr(api_client.backend.log.inner, "append", append_after_second_change)
    assert patch(api_client, {"push": False}).status_code == 200
    assert preferences(api_client) == {**DEFAULTS, "volume": "first", "push": False}
    assert (in_set(api_client, SetKind.OVERALL_FIRST), in_set(api_client, SetKind.NO_PUSH)) == ([1], [1])


def test_unchanged_preferences_are_not_logged(api_client: ApiClient) -> None:
    unchanged = {name: value for name, value in DEFAULTS.items() if name != "push"}
    assert patch(api_client, unchanged).json() == DEFAULTS
    api_client.backend.sequence()
    assert api_client.backend.sets.read(SetKind.NO_PUSH, None, [0]) == {}


def test_push_true_asks_for_alerts_until_push_false(api_client: ApiClient) -> None:
    assert in_set(api_client, SetKind.PUSH_OPT_IN) == []
    assert patch(api_client, {"push": True}).json() == preferences(api_client) == {**DEFAULTS, "asked": True}
    assert in_set(api_client, SetKind.PUSH_OPT_IN) == [1]
    assert patch(api_client, {"push": False}).json() == {**DEFAULTS, "push": False}
    assert (in_set(api_client, SetKind.PUSH_OPT_IN), in_set(api_client, SetKind.NO_PUSH)) == ([], [1])


def test_outage_copy_is_dropped_when_the_volume_hides_it(api_client: ApiClient) -> None:
    api_client.mention()
    assert shown_count(api_client) == 1
    patch(api_client, {"volume": "off"})
    api_client.backend.port_errors.store = StoreUnavailable()
    assert api_client.inbox("u1").json()["items"] == []


def test_mentions_setting_applies_to_the_next_mention(api_client: ApiClient) -> None:
    api_client.mention()
    advance_past_burst(api_client)
    assert (
        patch(api_client, {"mentions": "none"}, "nova").json()["mentions"]
        == preferences(api_client, "nova")["mentions"]
        == "none"
    )
    api_client.post(event("7"))
    assert api_client.refusals("7") == {"nova": "not_wanted"}
    assert (shown_count(api_client), shown_count(api_client, "nova")) == (1, 2)
    patch(api_client, {"mentions": "verified"}, "nova")
    api_client.post(event("8"))
    assert api_client.refusals("8") == {"nova": "not_wanted"}
    patch(api_client, {"mentions": "all"}, "nova")
    advance_past_burst(api_client)
    api_client.post(event("9"))
    assert (api_client.refusals("9"), shown_count(api_client)) == ({"nova": None}, 2)
