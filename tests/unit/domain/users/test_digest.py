"""Digest: when it is due in local time, which bursts it contains, and its text."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from notifier.domain.bursts.burst import RETENTION
from notifier.domain.ids import BurstKey, Kind, Subject
from notifier.domain.users.account_preferences import AccountPreferences
from notifier.domain.users.digest import (
    MAX_EXAMINED_BURSTS,
    MAX_LISTED_BURSTS,
    Digest,
    DigestSchedule,
    date_of,
    digest_key,
    digest_of,
    is_in_digest,
)
from notifier.domain.users.quiet_hours import time_zone_of
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark, Marks, Viewer
from tests.support.domain_examples import ADA, BOB, EVE, HOUR, NOON, NOVA, OF_NOVA, SECOND, SELF_NOVA, burst, viewer

OF_EVE = Subject(Kind.MENTION, EVE)
TODAY = date(2026, 1, 5)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def schedule(zone: str = "UTC", hour: int = 18) -> DigestSchedule:
    return DigestSchedule.of(AccountPreferences(zone=zone, digest_hour=hour))


def digest_viewer(**fields: object) -> Viewer:
    follower = viewer(follows={OF_NOVA: NOON - HOUR, OF_EVE: NOON - HOUR}, volume=Volume.DIGEST)
    return replace(follower, volume={OF_NOVA: Volume.DIGEST, OF_EVE: Volume.DIGEST}, **fields)  # type: ignore[arg-type] # fields chosen by the test


@pytest.mark.parametrize(
    ("zone", "hour", "day", "due"),
    [
        ("UTC", 18, "2026-01-05", "2026-01-05T18:00"),
        ("Europe/Berlin", 18, "2026-01-05", "2026-01-05T17:00"),
        ("Europe/Berlin", 18, "2026-07-05", "2026-07-05T16:00"),
        ("Asia/Tokyo", 0, "2026-01-05", "2026-01-04T15:00"),
        # The clock jumps from 02:00 to 03:00, or goes back from 03:00 to 02:00.
        ("Europe/Berlin", 2, "2026-03-29", "2026-03-29T01:00"),
        ("Europe/Berlin", 2, "2026-10-25", "2026-10-25T00:00"),
        # The clock changes by half an hour.
        ("Australia/Lord_Howe", 2, "2026-10-04", "2026-10-03T15:30"),
        ("Australia/Lord_Howe", 2, "2026-04-05", "2026-04-04T15:30"),
        # There was no midnight, or no 23:00: that digest came at the start of the next day.
        ("America/Sao_Paulo", 0, "2018-11-04", "2018-11-04T03:00"),
        ("America/Nuuk", 23, "2024-03-30", "2024-03-31T01:00"),
        ("Pacific/Apia", 18, "2011-12-29", "2011-12-30T04:00"),
        ("Pacific/Apia", 18, "2011-12-31", "2011-12-31T04:00"),
        ("Nowhere/At_All", 18, "2026-01-05", "2026-01-05T18:00"),
    ],
)
def test_digest_is_due_when_local_time_first_reaches_its_hour(zone: str, hour: int, day: str, due: str) -> None:
    assert schedule(zone, hour).due_time_or_none(date.fromisoformat(day)) == utc(due)


def test_date_skipped_by_a_zone_has_no_digest() -> None:
    samoa, left_out = schedule("Pacific/Apia"), date(2011, 12, 30)
    assert samoa.due_time_or_none(left_out) is None
    assert samoa.previous_date(date(2011, 12, 31)) == date(2011, 12, 29)
    assert samoa.day_of(utc("2011-12-30T04:00")) == samoa.day_of(utc("2011-12-31T03:59")) == date(2011, 12, 31)
    assert samoa.day_of(utc("2011-12-30T03:59:59")) == date(2011, 12, 29)


def test_burst_opened_at_the_due_time_is_in_the_next_digest() -> None:
    due = schedule().due_time(TODAY)
    assert schedule().day_of(due - timedelta(milliseconds=1)) == TODAY
    assert schedule().day_of(due) == date(2026, 1, 6)
    assert (schedule().latest_due_date(due), schedule().latest_due_date(due - SECOND)) == (TODAY, date(2026, 1, 4))
    assert (schedule().next_due_time(due - SECOND), schedule().next_due_time(due)) == (due, due + timedelta(days=1))


def test_digest_contains_bursts_hidden_only_by_its_volume() -> None:
    reader, now = digest_viewer(), NOON + HOUR
    assert is_in_digest(burst(), reader, now)
    assert not is_in_digest(burst(), viewer(), now)
    assert not is_in_digest(burst(), viewer(volume=Volume.OFF), now)
    assert not is_in_digest(burst(first_of_day=False), viewer(volume=Volume.FIRST), now)
    assert not is_in_digest(burst(subject=SELF_NOVA), reader, now)
    assert not is_in_digest(burst(opened_at=NOON - 2 * HOUR), reader, now)
    assert not is_in_digest(burst(restricted_to=ADA), reader, now)
    assert is_in_digest(burst(restricted_to=EVE), reader, now)
    assert not is_in_digest(burst(), replace(reader, blocked=[ADA]), now)
    assert not is_in_digest(burst(), replace(reader, marks=Marks(by_burst={burst().key: Mark.HIDDEN})), now)
    assert not is_in_digest(burst(), reader, NOON + RETENTION)
    assert not is_in_digest(replace(burst(), count=0), reader, now)  # retracted
    assert not is_in_digest(burst(), replace(reader, account_preferences=AccountPreferences(volume=Volume.OFF)), now)


def test_account_wide_digest_covers_subjects_without_own_volume() -> None:
    reader = replace(viewer(), account_preferences=AccountPreferences(volume=Volume.DIGEST))
    assert (list(reader.digest_subjects), is_in_digest(burst(), reader, NOON)) == ([OF_NOVA], True)
    loud = replace(viewer(volume=Volume.ALL), account_preferences=reader.account_preferences)
    assert (list(loud.digest_subjects), is_in_digest(burst(), loud, NOON)) == ([], False)
    assert list(viewer(user=NOVA).digest_subjects) == []


def test_digest_sums_the_mentions_of_each_account() -> None:
    bursts = [
        burst(seq=3, mentioners=(ADA, EVE)),
        burst(seq=2, subject=OF_EVE, mentioners=(ADA,)),
        burst(seq=1, mentioners=(BOB,)),
    ]
    digest = digest_of(digest_viewer(), TODAY, bursts, NOON + HOUR)
    assert digest == Digest(
        key=digest_key(BOB, TODAY),
        opened_at=utc("2026-01-05T18:00"),
        count=4,
        accounts=((NOVA, 3), (EVE, 1)),
        newest=tuple(bursts),
        more=False,
    )
    assert str(digest.key) == "digest:bob#20260105"


def test_digest_of_a_busy_day_keeps_the_newest_bursts() -> None:
    opened = [burst(seq=seq) for seq in range(MAX_EXAMINED_BURSTS + 1, 0, -1)]
    whole, busy = (digest_of(digest_viewer(), TODAY, bursts, NOON) for bursts in (opened[1:], opened))
    assert whole is not None
    assert busy is not None
    assert (whole.count, whole.more) == (MAX_EXAMINED_BURSTS, False)
    assert (busy.count, busy.more) == (MAX_EXAMINED_BURSTS, True)
    assert [shown.key.seq for shown in busy.newest] == [
        *range(MAX_EXAMINED_BURSTS + 1, MAX_EXAMINED_BURSTS + 1 - MAX_LISTED_BURSTS, -1)
    ]


def test_digest_without_visible_bursts_does_not_exist() -> None:
    assert digest_of(digest_viewer(), TODAY, [], NOON) is None
    assert digest_of(digest_viewer(blocked=[ADA]), TODAY, [burst()], NOON) is None


def test_digest_is_hidden_and_expires_as_a_burst_does() -> None:
    digest = digest_of(digest_viewer(), TODAY, [burst()], NOON)
    assert digest is not None
    assert digest.is_visible(digest_viewer(), digest.opened_at + RETENTION - SECOND)
    assert not digest.is_visible(digest_viewer(), digest.opened_at + RETENTION)
    assert not digest.is_visible(digest_viewer(marks=Marks(by_burst={digest.key: Mark.HIDDEN})), NOON)


@pytest.mark.parametrize("seq", [0, 1, 10101, 20260230, 20261301, 99990101, 10**17])
def test_digest_number_that_is_no_date_is_ignored(seq: int) -> None:
    assert date_of(BurstKey(Subject(Kind.DIGEST, BOB), seq)) is None
    assert date_of(digest_key(BOB, TODAY)) == TODAY


def test_unknown_zone_falls_back_to_utc() -> None:
    assert time_zone_of("Nowhere/At_All") is UTC
