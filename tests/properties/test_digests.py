"""Digests for any zone and hour: every burst once, and the badge counts them."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import available_timezones

from hypothesis import example, given, settings
from hypothesis import strategies as st

from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import (
    DEFAULT_ACCOUNT_PREFERENCES,
    AccountPreferences,
    AccountPreferencesPatch,
    visible_from,
)
from notifier.domain.users.digest import Digest, DigestSchedule, date_of, is_in_digest
from notifier.domain.users.subject_preferences import (
    ALWAYS,
    NEVER,
    PreferencePatch,
    SubjectPreference,
    Volume,
    own_volumes,
)
from notifier.flow.inbox.page import Entry, InboxView, OpenedInbox
from notifier.flow.inbox.page_audit import Audit
from notifier.metrics import Metrics
from tests.support.domain_examples import ADA, BOB, EVE, MINUTE, NOON, burst, viewer
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_system import LYRA, NOVA, Openings, Stage
from tests.support.simulator.inbox_visits import run_sync

ZONES = st.sampled_from(sorted(available_timezones()))
HOURS = st.integers(0, 23)
DAY = timedelta(days=1)
LEE = UserId("lee")
LEE_SELF = Subject(Kind.SELF, LEE)


@given(ZONES, HOURS, st.dates(date(1971, 1, 1), date(2037, 12, 1)), st.integers(0, 5 * 86_400))
@example("Pacific/Apia", 18, date(2011, 12, 28), 2 * 86_400)
@example("Pacific/Kwajalein", 0, date(1993, 8, 19), 2 * 86_400)
@example("America/Sao_Paulo", 0, date(2018, 11, 2), 2 * 86_400)
@example("Europe/Berlin", 2, date(2026, 3, 27), 2 * 86_400)
@example("Australia/Lord_Howe", 2, date(2026, 4, 3), 2 * 86_400)
@example("America/Nuuk", 23, date(2024, 3, 29), 86_400)
@settings(max_examples=400)
def test_every_time_belongs_to_exactly_one_digest_date(zone: str, hour: int, first_day: date, seconds: int) -> None:
    schedule = DigestSchedule.of(AccountPreferences(zone=zone, digest_hour=hour))
    days = [day for n in range(-3, 10) if schedule.due_time_or_none(day := first_day + n * DAY)]
    dues = [schedule.due_time(day) for day in days]
    assert all(earlier < later for earlier, later in pairwise(dues))
    assert all(schedule.previous_date(later) == earlier for earlier, later in pairwise(days))
    time = datetime.combine(first_day, datetime.min.time(), UTC) + timedelta(seconds=seconds)
    [(next_due, day)] = [
        (later, day) for (earlier, later), day in zip(pairwise(dues), days[1:], strict=True) if earlier <= time < later
    ]
    assert schedule.day_of(time) == day
    assert (schedule.latest_due_date(time), schedule.next_due_time(time)) == (schedule.previous_date(day), next_due)
    local = next_due.astimezone(schedule.time_zone)
    assert (local.date(), local.hour) >= (day, hour)
    assert local - timedelta(hours=1) <= datetime.combine(day, local.min.time(), schedule.time_zone) + timedelta(
        hours=hour
    )


VOLUMES = [volume for volume in Volume if volume is not Volume.DEFAULT]
CHANGES = st.lists(
    st.one_of(
        st.builds(PreferencePatch, volume=st.sampled_from(Volume)),
        st.builds(PreferencePatch, muted_until=st.sampled_from([ALWAYS, NEVER, NOON + 12 * MINUTE])),
        st.builds(AccountPreferencesPatch, volume=st.sampled_from(VOLUMES)),
    ),
    min_size=1,
    max_size=20,
)


@given(CHANGES, st.booleans())
@settings(max_examples=400)
def test_burst_is_never_both_listed_and_in_a_digest(
    changes: list[PreferencePatch | AccountPreferencesPatch], first_of_day: bool
) -> None:
    """Open a burst after each change, and evaluate all bursts before the next change."""
    preference, overall = SubjectPreference(subject=NOVA, member=Member(7), at=ALWAYS), DEFAULT_ACCOUNT_PREFERENCES
    listed_keys, digested_keys, opened = set[BurstKey](), set[BurstKey](), list[Burst]()
    for n, change in enumerate(changes):
        now = NOON + n * MINUTE
        match change:
            case PreferencePatch():
                preference = preference.apply(change.change_for(preference, now, overall.volume, overall.default_from))
            case AccountPreferencesPatch():
                overall = overall.apply(change.change_for(Member(7), overall, now))
        opened.append(burst(subject=NOVA, seq=n + 1, opened_at=now + MINUTE / 2, first_of_day=first_of_day))
        preferences = {NOVA: preference}
        follows = visible_from({NOVA: NOON}, preferences, overall)
        lee = replace(viewer(user=LEE, follows=follows), volume=own_volumes(preferences), account_preferences=overall)
        view = InboxView(viewer=lee, member=Member(7), now=now + MINUTE * 3 / 4)
        listed_keys |= {burst_.key for burst_ in opened if view.is_visible(burst_)}
        digested_keys |= {burst_.key for burst_ in opened if is_in_digest(burst_, lee, view.now)}
        assert not listed_keys & digested_keys


@dataclass(frozen=True, kw_only=True)
class Preferences:
    zone: str
    hour: int
    overall: Volume
    nova: Volume
    lyra: Volume


PREFERENCES = st.builds(
    Preferences,
    zone=ZONES | st.sampled_from(["UTC", "Europe/Berlin"]),
    hour=HOURS,
    overall=st.sampled_from([Volume.ALL, Volume.DIGEST, Volume.DIGEST]),
    nova=st.sampled_from([Volume.DEFAULT, Volume.ALL, Volume.DIGEST, Volume.FIRST]),
    lyra=st.sampled_from([Volume.DEFAULT, Volume.DIGEST, Volume.DIGEST]),
)
OPENED = st.lists(
    st.tuples(
        st.sampled_from([NOVA, LYRA, LYRA, LEE_SELF]),
        st.integers(1, 6 * 86_400),
        st.sampled_from([(ADA,), (BOB,), (ADA, BOB)]),
        st.sampled_from([None, None, None, EVE]),
    ),
    max_size=25,
    unique_by=lambda opening: opening[:2],
)


def stage_with(preferences: Preferences, opened: list[tuple[Subject, int, tuple[UserId, ...], UserId | None]]) -> Stage:
    """Build Lee's week: Bob is blocked; Eve is protected and not followed by Lee."""
    stage = Stage()
    people, bursts = stage.state.people, stage.state.bursts.by_key
    people.patch_account(
        LEE, AccountPreferencesPatch(volume=preferences.overall, zone=preferences.zone, digest_hour=preferences.hour)
    )
    people.volume(LEE, NOVA, preferences.nova)
    people.volume(LEE, LYRA, preferences.lyra)
    people.block(LEE, BOB)
    stage.pass_time(days=7)
    for subject, seconds, names, author in sorted(opened, key=lambda opening: opening[1]):
        seq = sum(key.subject == subject for key in bursts) + 1
        burst_ = burst(subject=subject, seq=seq, opened_at=START + timedelta(seconds=seconds), mentioners=names)
        bursts[burst_.key] = replace(burst_, restricted_to=author)
    return stage


def listed_entries(stage: Stage, limit: int) -> list[Entry]:
    """Return the entries of all pages."""
    entries, page = list[Entry](), run_sync(stage.uncached_inbox().page(LEE, limit=limit))
    while True:
        entries += [item.entry for item in page.items]
        if page.next is None:
            return entries
        assert len(page.items) <= limit
        page = run_sync(stage.uncached_inbox().page(LEE, after=page.next, limit=limit))


def drifts(stage: Stage, opened: OpenedInbox) -> float:
    async def no_pause(_: float) -> None:
        return

    metrics, state = Metrics(), stage.state
    run_sync(Audit(people=state.people, timeline=state.timeline, metrics=metrics, pause=no_pause).compare(opened))
    return metrics.registry.get_sample_value("notifier_badge_drift_total") or 0.0


@given(PREFERENCES, OPENED, st.integers(1, 7))
@settings(max_examples=150, deadline=None)
def test_every_burst_is_listed_once_and_the_badge_counts_the_list(
    preferences: Preferences, opened: list[tuple[Subject, int, tuple[UserId, ...], UserId | None]], limit: int
) -> None:
    stage, openings = stage_with(preferences, opened), Openings()
    now, entries = stage.state.clock.now(), listed_entries(stage, limit)
    assert entries == sorted(entries, key=lambda entry: (entry.opened_at, entry.key), reverse=True)
    listed_keys = [entry.key for entry in entries if isinstance(entry, Burst)]
    digests = [entry for entry in entries if isinstance(entry, Digest)]
    assert max(Counter(date_of(digest.key) for digest in digests).values(), default=1) == 1
    inside = [burst_.key for digest in digests for burst_ in digest.newest]
    schedule = DigestSchedule.of(AccountPreferences(zone=preferences.zone, digest_hour=preferences.hour))
    own_volumes = {NOVA: preferences.nova, LYRA: preferences.lyra, LEE_SELF: Volume.ALL}
    seen = [
        burst_
        for burst_ in stage.state.bursts.by_key.values()
        if burst_.mentioners != (BOB,) and burst_.restricted_to is None
    ]
    volumes = {subject: preferences.overall if own is Volume.DEFAULT else own for subject, own in own_volumes.items()}
    digested_bursts = [burst_ for burst_ in seen if volumes[burst_.key.subject] is Volume.DIGEST]
    due = [burst_.key for burst_ in digested_bursts if schedule.due_time(schedule.day_of(burst_.opened_at)) <= now]
    assert Counter(inside) == Counter(due)
    assert Counter(listed_keys) == Counter(burst_.key for burst_ in seen if burst_ not in digested_bursts)
    for digest in digests:
        assert all(schedule.day_of(burst_.opened_at) == date_of(digest.key) for burst_ in digest.newest)
        assert digest.opened_at == schedule.due_time(schedule.day_of(digest.newest[0].opened_at)) <= now
        assert digest.count == sum(burst_.count for burst_ in digest.newest) == sum(n for _, n in digest.accounts)
    tab = replace(stage.uncached_inbox(), observers=[openings])
    page, badge = run_sync(tab.open(LEE, limit=limit))
    assert badge is not None
    assert badge.count == len(entries)
    assert drifts(stage, openings[0]) == 0
    if page.seen is not None:
        run_sync(tab.see(LEE, page.seen))
    assert run_sync(tab.badge(LEE)).count == 0
    stage.pass_time(days=RETENTION.days)
    assert listed_entries(stage, limit) == []
