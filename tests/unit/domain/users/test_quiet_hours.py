"""Quiet hours by the clock on the wall, also where that is moved."""

from datetime import UTC, datetime, time, timedelta

import pytest

from notifier.domain.users.quiet_hours import (
    NO_QUIET_HOURS,
    QuietHours,
    is_known_zone,
    is_quiet,
    next_quarter_hour,
    quiet_until,
)

NIGHT = QuietHours(start=time(22), end=time(7))
BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "hours", "now", "silent"),
    [
        ("UTC", NIGHT, "2026-01-05T21:59:59", False),
        ("UTC", NIGHT, "2026-01-05T22:00:00", True),
        ("UTC", NIGHT, "2026-01-06T06:59:59", True),
        ("UTC", NIGHT, "2026-01-06T07:00:00", False),
        (BERLIN, NIGHT, "2026-01-05T21:00:00", True),
        (BERLIN, NIGHT, "2026-07-05T20:00:00", True),
        (BERLIN, NIGHT, "2026-07-05T19:59:59", False),
        (NEW_YORK, NIGHT, "2026-01-05T21:00:00", False),
        ("Asia/Kathmandu", NIGHT, "2026-01-05T16:15:00", True),
        ("UTC", QuietHours(start=time(13), end=time(14)), "2026-01-05T13:30:00", True),
        ("UTC", QuietHours(start=time(13), end=time(14)), "2026-01-05T14:00:00", False),
        ("UTC", NO_QUIET_HOURS, "2026-01-05T00:00:00", False),
    ],
)
def test_they_are_the_wall_s(zone: str, hours: QuietHours, now: str, silent: bool) -> None:
    assert is_quiet(zone, hours, utc(now)) is silent


@pytest.mark.parametrize(
    ("hours", "day", "first", "last"),
    [
        # Berlin, the night to 2026-03-29: at 01:00Z the hand leaps from 02:00 to 03:00.
        (NIGHT, "2026-03-28", "2026-03-28T21:00", "2026-03-29T05:00"),
        (QuietHours(start=time(22), end=time(2, 30)), "2026-03-28", "2026-03-28T21:00", "2026-03-29T01:30"),
        (QuietHours(start=time(2, 30), end=time(7)), "2026-03-29", "2026-03-29T00:30", "2026-03-29T05:00"),
        # The night to 2026-10-25: at 01:00Z it goes back from 03:00 to 02:00.
        (NIGHT, "2026-10-24", "2026-10-24T20:00", "2026-10-25T06:00"),
        (QuietHours(start=time(22), end=time(2, 30)), "2026-10-24", "2026-10-24T20:00", "2026-10-25T01:30"),
        (QuietHours(start=time(2, 30), end=time(7)), "2026-10-25", "2026-10-25T00:30", "2026-10-25T06:00"),
        (QuietHours(start=time(2, 15), end=time(2, 45)), "2026-10-25", "2026-10-25T00:15", "2026-10-25T01:45"),
    ],
)
def test_where_the_clock_is_moved_they_are_one_stretch(hours: QuietHours, day: str, first: str, last: str) -> None:
    minute = timedelta(minutes=1)
    start = utc(f"{day}T00:00") - timedelta(hours=2)
    silent = [now for n in range(36 * 60) if is_quiet(BERLIN, hours, now := start + n * minute)]
    (begins, ends) = utc(first), utc(last) - minute
    stretch = [now for now in silent if now >= begins - minute]
    assert (stretch[0], stretch[-1] if hours.start > hours.end else max(n for n in silent if n <= ends)) == (
        begins,
        ends,
    )
    assert all(begins + n * minute in silent for n in range((ends - begins) // minute))
    assert begins - minute not in silent
    assert ends + minute not in silent


@pytest.mark.parametrize(
    ("zone", "hours", "now", "until"),
    [
        ("UTC", NIGHT, "2026-01-05T21:59", None),
        ("UTC", NIGHT, "2026-01-05T22:00", "2026-01-06T07:00"),
        ("UTC", NIGHT, "2026-01-06T06:59", "2026-01-06T07:00"),
        (BERLIN, NIGHT, "2026-03-28T21:00", "2026-03-29T05:00"),
        (BERLIN, NIGHT, "2026-10-24T20:00", "2026-10-25T06:00"),
        (BERLIN, QuietHours(start=time(22), end=time(2, 30)), "2026-10-25T00:45", "2026-10-25T01:30"),
        # They begin again before they end, because the hand goes back in between.
        (BERLIN, QuietHours(start=time(2, 30), end=time(2, 15)), "2026-10-25T00:00", "2026-10-26T01:15"),
        ("Atlantis/Poseidonis", NIGHT, "2026-01-05T23:00", "2026-01-06T07:00"),
        ("UTC", NO_QUIET_HOURS, "2026-01-05T00:00", None),
    ],
)
def test_they_last_until_the_first_moment_that_is_not_quiet(
    zone: str, hours: QuietHours, now: str, until: str | None
) -> None:
    found = quiet_until(zone, hours, utc(now))
    assert found == (None if until is None else utc(until))
    assert found is None or not is_quiet(zone, hours, found)


def test_half_an_hour_of_summer_is_heard_too() -> None:
    hours = QuietHours(start=time(1, 45), end=time(3))
    assert is_quiet(LORD_HOWE, hours, utc("2026-04-04T14:45"))  # 01:45 the first time, half an hour before it goes back
    assert is_quiet(LORD_HOWE, hours, utc("2026-04-04T15:05"))  # 01:35 for the second time
    assert not is_quiet(LORD_HOWE, hours, utc("2026-04-04T16:30"))


def test_a_zone_is_one_of_the_iana_s_names() -> None:
    assert all(map(is_known_zone, ("UTC", BERLIN, "America/Argentina/Buenos_Aires")))
    assert not any(
        map(is_known_zone, ("", "Berlin", "../etc/passwd", "/etc/localtime", "Europe", "a\0b", "Europe/Berlin "))
    )


def test_where_a_zone_is_known_no_more_utc_counts() -> None:
    assert is_quiet("Atlantis/Poseidonis", NIGHT, utc("2026-01-05T22:00"))
    assert not is_quiet("Atlantis/Poseidonis", NIGHT, utc("2026-01-05T21:00"))


@pytest.mark.parametrize(
    ("wakes", "at"),
    [
        ("2026-01-06T07:00:00", "2026-01-06T07:00:00"),
        ("2026-01-06T07:00:00.001", "2026-01-06T07:15:00"),
        ("2026-01-06T07:14:59", "2026-01-06T07:15:00"),
        ("2026-01-06T23:46:00", "2026-01-07T00:00:00"),
    ],
)
def test_who_wakes_is_looked_for_at_a_quarter_and_never_before(wakes: str, at: str) -> None:
    assert next_quarter_hour(utc(wakes)) == utc(at)


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, "Asia/Kathmandu", "Australia/Eucla", LORD_HOWE])
def test_whose_night_ends_at_a_quarter_waits_for_nobody_else(zone: str) -> None:
    until = quiet_until(zone, QuietHours(start=time(0, 30), end=time(0, 15)), utc("2026-01-05T12:00:00"))
    assert until is not None
    assert next_quarter_hour(until) == until
