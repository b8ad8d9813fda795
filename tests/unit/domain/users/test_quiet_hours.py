"""Quiet hours in local time, including daylight saving changes."""

from datetime import UTC, datetime, time, timedelta

import pytest

from notifier.domain.users.quiet_hours import (
    NO_QUIET_HOURS,
    QuietHours,
    is_known_zone,
    is_quiet,
    quiet_until,
    rounded_up_to_quarter_hour,
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
def test_quiet_hours_follow_local_time(zone: str, hours: QuietHours, now: str, silent: bool) -> None:
    assert is_quiet(zone, hours, utc(now)) is silent


@pytest.mark.parametrize(
    ("hours", "day", "first", "last"),
    [
        # Berlin, the night before 2026-03-29: at 01:00Z the clock jumps from 02:00 to 03:00.
        (NIGHT, "2026-03-28", "2026-03-28T21:00", "2026-03-29T05:00"),
        (QuietHours(start=time(22), end=time(2, 30)), "2026-03-28", "2026-03-28T21:00", "2026-03-29T01:30"),
        (QuietHours(start=time(2, 30), end=time(7)), "2026-03-29", "2026-03-29T00:30", "2026-03-29T05:00"),
        # The night before 2026-10-25: at 01:00Z the clock goes back from 03:00 to 02:00.
        (NIGHT, "2026-10-24", "2026-10-24T20:00", "2026-10-25T06:00"),
        (QuietHours(start=time(22), end=time(2, 30)), "2026-10-24", "2026-10-24T20:00", "2026-10-25T01:30"),
        (QuietHours(start=time(2, 30), end=time(7)), "2026-10-25", "2026-10-25T00:30", "2026-10-25T06:00"),
        (QuietHours(start=time(2, 15), end=time(2, 45)), "2026-10-25", "2026-10-25T00:15", "2026-10-25T01:45"),
    ],
)
def test_quiet_hours_are_contiguous_across_clock_changes(hours: QuietHours, day: str, first: str, last: str) -> None:
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
        # Quiet hours begin again before they end, because the clock goes back in between.
        (BERLIN, QuietHours(start=time(2, 30), end=time(2, 15)), "2026-10-25T00:00", "2026-10-26T01:15"),
        ("Atlantis/Poseidonis", NIGHT, "2026-01-05T23:00", "2026-01-06T07:00"),
        ("UTC", NO_QUIET_HOURS, "2026-01-05T00:00", None),
    ],
)
def test_quiet_until_is_the_first_time_that_is_not_quiet(
    zone: str, hours: QuietHours, now: str, until: str | None
) -> None:
    end = quiet_until(zone, hours, utc(now))
    assert end == (None if until is None else utc(until))
    assert end is None or not is_quiet(zone, hours, end)


def test_quiet_hours_follow_a_clock_change_of_half_an_hour() -> None:
    hours = QuietHours(start=time(1, 45), end=time(3))
    assert is_quiet(LORD_HOWE, hours, utc("2026-04-04T14:45"))  # 01:45, before the clock goes back
    assert is_quiet(LORD_HOWE, hours, utc("2026-04-04T15:05"))  # 01:35, after the clock went back
    assert not is_quiet(LORD_HOWE, hours, utc("2026-04-04T16:30"))


def test_only_iana_zone_names_are_known() -> None:
    assert all(map(is_known_zone, ("UTC", BERLIN, "America/Argentina/Buenos_Aires")))
    assert not any(
        map(is_known_zone, ("", "Berlin", "../etc/passwd", "/etc/localtime", "Europe", "a\0b", "Europe/Berlin "))
    )


def test_quiet_hours_of_unknown_zone_use_utc() -> None:
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
def test_wake_time_is_rounded_up_to_a_quarter_hour(wakes: str, at: str) -> None:
    assert rounded_up_to_quarter_hour(utc(wakes)) == utc(at)


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, "Asia/Kathmandu", "Australia/Eucla", LORD_HOWE])
def test_quiet_hours_ending_at_a_quarter_hour_add_no_wait(zone: str) -> None:
    until = quiet_until(zone, QuietHours(start=time(0, 30), end=time(0, 15)), utc("2026-01-05T12:00:00"))
    assert until is not None
    assert rounded_up_to_quarter_hour(until) == until
