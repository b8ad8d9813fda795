"""Per-subject preferences: effective at once, validated, and passed on to the indexer."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import httpx
import pytest

from notifier.domain.audience.bitmap import members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.errors import DiskFull, LogUnavailable, NotifierError, StoreUnavailable
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.ports.event_log_and_dead_letters import Record
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.http.error_response_checks import assert_problem
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import ApiClient

NOVA = Subject(Kind.MENTION, UserId("nova"))
ALL = {"subject": "mention:nova", "volume": "default", "muted_until": None}


def patch_preference(
    api_client: ApiClient, body: object, *, subject: str = "mention:nova", user: str = "u1"
) -> httpx.Response:
    return api_client.http.patch(f"/v1/preferences/{subject}", json=body, headers=api_client.bearer(user))


def preferences(api_client: ApiClient, user: str = "u1") -> list[dict[str, object]]:
    response = api_client.http.get("/v1/preferences", headers=api_client.bearer(user))
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "private, no-store")
    body: list[dict[str, object]] = response.json()["preferences"]
    return body


def shown_tweets(api_client: ApiClient, user: str = "u1") -> list[str]:
    return [item["tweet"] for item in api_client.inbox(user).json()["items"]]


def set_members(api_client: ApiClient, kind: SetKind) -> list[int]:
    """Return the members in the bitmap that fan-out reads."""
    api_client.backend.sequence()
    return [
        int(member)
        for shard, bits in api_client.backend.sets.read(kind, NOVA, [0]).items()
        for member in members(bits, shard)
    ]


def test_preferences_are_empty_by_default(api_client: ApiClient) -> None:
    assert preferences(api_client) == []


def test_mute_hides_earlier_and_later_bursts_until_it_is_lifted(api_client: ApiClient) -> None:
    api_client.mention()
    response = patch_preference(api_client, {"muted_until": "forever"})
    assert (response.status_code, response.json()) == (200, {**ALL, "muted_until": "forever"})
    assert (shown_tweets(api_client), preferences(api_client), len(shown_tweets(api_client, "u2"))) == (
        [],
        [response.json()],
        1,
    )
    api_client.backend.clock.advance(timedelta(minutes=2))
    api_client.mention()
    assert shown_tweets(api_client) == []
    api_client.backend.clock.advance(timedelta(seconds=1))
    assert patch_preference(api_client, {"muted_until": None}).json() == ALL
    api_client.backend.clock.advance(timedelta(minutes=2))
    api_client.mention()
    assert (len(shown_tweets(api_client)), len(shown_tweets(api_client, "u2")), preferences(api_client)) == (1, 3, [])


def test_temporary_mute_ends_by_itself(api_client: ApiClient) -> None:
    until = START + timedelta(hours=1)
    assert (
        patch_preference(api_client, {"muted_until": until.isoformat()}).json()["muted_until"] == "2026-01-05T13:00:00Z"
    )
    api_client.mention()
    assert shown_tweets(api_client) == []
    api_client.backend.clock.advance(timedelta(hours=1))
    assert (shown_tweets(api_client), preferences(api_client)) == ([], [])
    api_client.mention()
    assert len(shown_tweets(api_client)) == 1


@pytest.mark.parametrize(("volume", "seen"), [("first", 1), ("off", 0), ("all", 2)])
def test_volume_controls_how_much_is_shown(api_client: ApiClient, volume: str, seen: int) -> None:
    api_client.mention()
    api_client.backend.clock.advance(timedelta(minutes=2))
    api_client.mention()
    assert patch_preference(api_client, {"volume": volume}).json() == {**ALL, "volume": volume}
    assert len(shown_tweets(api_client)) == seen


def test_volume_all_after_off_shows_only_later_bursts(api_client: ApiClient) -> None:
    patch_preference(api_client, {"volume": "off"})
    api_client.mention()
    api_client.backend.clock.advance(timedelta(minutes=2))
    patch_preference(api_client, {"volume": "all"})
    api_client.mention()
    assert len(shown_tweets(api_client)) == 1


def test_patch_changes_only_the_given_fields(api_client: ApiClient) -> None:
    patch_preference(api_client, {"volume": "first"})
    assert patch_preference(api_client, {"muted_until": "forever"}).json() == {
        **ALL,
        "volume": "first",
        "muted_until": "forever",
    }
    assert patch_preference(api_client, {"volume": "off"}).json() == {**ALL, "volume": "off", "muted_until": "forever"}


def test_fanout_skips_muted_and_quieter_members(api_client: ApiClient) -> None:
    patch_preference(api_client, {"muted_until": "forever"}, user="u1")
    patch_preference(api_client, {"volume": "off"}, user="u2")
    patch_preference(api_client, {"muted_until": (START + timedelta(hours=1)).isoformat()}, user="u3")
    assert (set_members(api_client, SetKind.MUTED), set_members(api_client, SetKind.OFF)) == ([1], [2])
    patch_preference(api_client, {"muted_until": None}, user="u1")
    patch_preference(api_client, {"volume": "first"}, user="u2")
    assert (
        set_members(api_client, SetKind.MUTED),
        set_members(api_client, SetKind.OFF),
        set_members(api_client, SetKind.FIRST),
    ) == (
        [],
        [],
        [2],
    )


def test_preference_may_name_an_account_that_is_not_followed(api_client: ApiClient) -> None:
    assert patch_preference(api_client, {"muted_until": "forever"}, subject="mention:ada").status_code == 200
    assert [preference["subject"] for preference in preferences(api_client)] == ["mention:ada"]
    assert preferences(api_client, "u2") == []


def test_repeated_patch_is_idempotent(api_client: ApiClient) -> None:
    assert (
        patch_preference(api_client, {"volume": "first"}).json()
        == patch_preference(api_client, {"volume": "first"}).json()
    )
    assert set_members(api_client, SetKind.FIRST) == [1]


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
def test_invalid_preference_is_refused_and_changes_nothing(api_client: ApiClient, body: object) -> None:
    response = patch_preference(api_client, body)
    assert response.status_code == 400
    assert_problem(response, 400, response.json()["code"])
    assert response.json()["code"] in ("bad_preference", "refused")
    assert preferences(api_client) == []


def test_refusal_of_an_unknown_volume_lists_the_valid_ones(api_client: ApiClient) -> None:
    assert patch_preference(api_client, {"volume": "loud"}).json()["detail"] == (
        "Invalid volume: 'loud'; use one of default, all, first, digest, off."
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
def test_subject_must_be_an_existing_account(api_client: ApiClient, subject: str, status: int, code: str) -> None:
    assert_problem(patch_preference(api_client, {"volume": "off"}, subject=subject), status, code)


def test_log_outage_changes_no_preferences(api_client: ApiClient) -> None:
    api_client.backend.port_errors.log = LogUnavailable()
    assert_problem(patch_preference(api_client, {"volume": "off"}), 503, "log_unavailable")
    assert preferences(api_client) == []


def test_response_shows_the_state_after_the_change(api_client: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, now = api_client.backend.clock, api_client.backend.clock.now

    def ticking_now() -> datetime:
        clock.advance(timedelta(milliseconds=1))
        return now()

    monkeypatch.setattr(clock, "now", ticking_now)
    for change in ({"muted_until": "forever"}, {"volume": "off"}):
        patch_preference(api_client, change)
    assert patch_preference(api_client, {"muted_until": None}).json() == {**ALL, "volume": "off"}
    assert patch_preference(api_client, {"volume": "default"}).json() == ALL


def test_concurrent_changes_to_different_fields_both_apply(
    api_client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request is answered before the first has written."""
    append, pending_changes = api_client.backend.log.inner.append, [{"volume": "first"}]

    def append_after_second_change(records: Sequence[Record]) -> None:
        if pending_changes:
            assert patch_preference(api_client, pending_changes.pop()).status_code == 200
        append(records)

    monkeypatch.setattr(api_client.backend.log.inner, "append", append_after_second_change)
    assert patch_preference(api_client, {"muted_until": "forever"}).status_code == 200
    assert preferences(api_client) == [{**ALL, "volume": "first", "muted_until": "forever"}]
    assert (set_members(api_client, SetKind.MUTED), set_members(api_client, SetKind.FIRST)) == ([1], [1])


def test_unchanged_preference_is_not_logged(api_client: ApiClient) -> None:
    assert (
        patch_preference(api_client, {"muted_until": None}).json()
        == patch_preference(api_client, {"volume": "default"}).json()
        == ALL
    )
    api_client.backend.sequence()
    assert api_client.backend.sets.read(SetKind.MUTED, NOVA, [0]) == {}


@pytest.mark.parametrize("error", [StoreUnavailable, DiskFull])
def test_mute_is_accepted_once_it_is_in_the_log(
    api_client: ApiClient, monkeypatch: pytest.MonkeyPatch, error: type[NotifierError]
) -> None:
    async def unavailable(_: object) -> None:
        raise error

    monkeypatch.setattr(api_client.backend.reads.preferences, "write", unavailable)
    assert patch_preference(api_client, {"muted_until": "forever"}).json()["muted_until"] == "forever"
    assert preferences(api_client) == []
    assert set_members(api_client, SetKind.MUTED) == [1]
    assert [preference["muted_until"] for preference in preferences(api_client)] == ["forever"]


def test_account_deleted_since_can_be_unmuted(api_client: ApiClient) -> None:
    patch_preference(api_client, {"muted_until": "forever"}, subject="mention:bob")
    api_client.backend.directory.enrol([DirectoryEntry(user=UserId("bob"), member=Member(5), deleted=True)])
    assert patch_preference(api_client, {"muted_until": None}, subject="mention:bob").status_code == 200
    assert preferences(api_client) == []


def test_outage_copy_is_dropped_when_a_mute_hides_it(api_client: ApiClient) -> None:
    api_client.mention()
    assert len(shown_tweets(api_client)) == 1
    patch_preference(api_client, {"muted_until": "forever"})
    api_client.backend.port_errors.store = StoreUnavailable()
    assert api_client.inbox("u1").json()["items"] == []
