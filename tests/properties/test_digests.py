"""Digests, whatever the zone and the hour: every burst is told once, in one place, and the badge counts the list."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import available_timezones

from hypothesis import example, given, settings
from hypothesis import strategies as st

from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import NOTHING_SAID, Overall, OverallWish, visible_from
from notifier.domain.users.digest import Digest, Schedule, date_in, gathered
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, Volume, Want, Wish, volumes
from notifier.flow.inbox.audit import Audit
from notifier.flow.inbox.page import Entry, InboxView, OpenedInbox
from notifier.metrics import Metrics
from tests.support.examples import ADA, BOB, EVE, MINUTE, NOON, burst, viewer
from tests.support.fakes.clock import START
from tests.support.in_memory_system import LYRA, NOVA, Openings, Stage
from tests.support.simulator.inbox_visits import driven

ZONES = st.sampled_from(sorted(available_timezones()))
HOURS = st.integers(0, 23)
DAY = timedelta(days=1)
LEE = UserId("lee")
OF_LEE = Subject(Kind.SELF, LEE)


@given(ZONES, HOURS, st.dates(date(1971, 1, 1), date(2037, 12, 1)), st.integers(0, 5 * 86_400))
@example("Pacific/Apia", 18, date(2011, 12, 28), 2 * 86_400)
@example("Pacific/Kwajalein", 0, date(1993, 8, 19), 2 * 86_400)
@example("America/Sao_Paulo", 0, date(2018, 11, 2), 2 * 86_400)
@example("Europe/Berlin", 2, date(2026, 3, 27), 2 * 86_400)
@example("Australia/Lord_Howe", 2, date(2026, 4, 3), 2 * 86_400)
@example("America/Nuuk", 23, date(2024, 3, 29), 86_400)
@settings(max_examples=400)
def test_every_moment_is_of_one_date_and_each_date_of_one_moment(zone: str, hour: int, first: date, at: int) -> None:
    schedule = Schedule.of(Overall(zone=zone, digest_hour=hour))
    days = [day for n in range(-3, 10) if schedule.due(day := first + n * DAY)]
    dues = [schedule.moment(day) for day in days]
    assert all(sooner < later for sooner, later in pairwise(dues))
    assert all(schedule.before(later) == sooner for sooner, later in pairwise(days))
    moment = datetime.combine(first, datetime.min.time(), UTC) + timedelta(seconds=at)
    [(until, day)] = [
        (later, day) for (sooner, later), day in zip(pairwise(dues), days[1:], strict=True) if sooner <= moment < later
    ]
    assert schedule.day_of(moment) == day
    assert (schedule.last(moment), schedule.due_of(moment)) == (schedule.before(day), until)
    wall = until.astimezone(schedule.wall)
    assert (wall.date(), wall.hour) >= (day, hour)
    assert wall - timedelta(hours=1) <= datetime.combine(day, wall.min.time(), schedule.wall) + timedelta(hours=hour)


VOLUMES = [volume for volume in Volume if volume is not Volume.DEFAULT]
SAID = st.lists(
    st.one_of(
        st.builds(Wish, volume=st.sampled_from(Volume)),
        st.builds(Wish, muted_until=st.sampled_from([ALWAYS, NEVER, NOON + 12 * MINUTE])),
        st.builds(OverallWish, volume=st.sampled_from(VOLUMES)),
    ),
    min_size=1,
    max_size=20,
)


@given(SAID, st.booleans())
@settings(max_examples=400)
def test_whatever_is_said_when_nothing_is_ever_told_singly_and_in_a_digest(
    said: list[Wish | OverallWish], first_of_day: bool
) -> None:
    """A burst opens after each word, and everything is looked at before the next one."""
    want, overall = Want(subject=NOVA, member=Member(7), at=ALWAYS), NOTHING_SAID
    singly, digested, opened = set[BurstKey](), set[BurstKey](), list[Burst]()
    for n, wish in enumerate(said):
        now = NOON + n * MINUTE
        match wish:
            case Wish():
                want = want.after(wish.heard(want, now, overall.volume, overall.default_from))
            case OverallWish():
                overall = overall.after(wish.heard(Member(7), overall, now))
        opened.append(burst(subject=NOVA, seq=n + 1, opened_at=now + MINUTE / 2, first_of_day=first_of_day))
        wants = {NOVA: want}
        follows = visible_from({NOVA: NOON}, wants, overall)
        lee = replace(viewer(user=LEE, follows=follows), volume=volumes(wants), overall=overall)
        look = InboxView(viewer=lee, member=Member(7), now=now + MINUTE * 3 / 4)
        singly |= {each.key for each in opened if look.admits(each)}
        digested |= {each.key for each in opened if gathered(each, lee, look.now)}
        assert not singly & digested


@dataclass(frozen=True, kw_only=True)
class Wishes:
    zone: str
    hour: int
    overall: Volume
    nova: Volume
    lyra: Volume


WISHES = st.builds(
    Wishes,
    zone=ZONES | st.sampled_from(["UTC", "Europe/Berlin"]),
    hour=HOURS,
    overall=st.sampled_from([Volume.ALL, Volume.DIGEST, Volume.DIGEST]),
    nova=st.sampled_from([Volume.DEFAULT, Volume.ALL, Volume.DIGEST, Volume.FIRST]),
    lyra=st.sampled_from([Volume.DEFAULT, Volume.DIGEST, Volume.DIGEST]),
)
OPENED = st.lists(
    st.tuples(
        st.sampled_from([NOVA, LYRA, LYRA, OF_LEE]),
        st.integers(1, 6 * 86_400),
        st.sampled_from([(ADA,), (BOB,), (ADA, BOB)]),
        st.sampled_from([None, None, None, EVE]),
    ),
    max_size=25,
    unique_by=lambda each: each[:2],
)


def staged(wishes: Wishes, opened: list[tuple[Subject, int, tuple[UserId, ...], UserId | None]]) -> Stage:
    """Lee's week; bob is blocked, and eve, whom lee doesn't follow, is protected."""
    stage = Stage()
    people, bursts = stage.ground.people, stage.ground.bursts.by_key
    people.arrange(LEE, OverallWish(volume=wishes.overall, zone=wishes.zone, digest_hour=wishes.hour))
    people.volume(LEE, NOVA, wishes.nova)
    people.volume(LEE, LYRA, wishes.lyra)
    people.block(LEE, BOB)
    stage.pass_time(days=7)
    for subject, at, names, author in sorted(opened, key=lambda each: each[1]):
        seq = sum(key.subject == subject for key in bursts) + 1
        made = burst(subject=subject, seq=seq, opened_at=START + timedelta(seconds=at), mentioners=names)
        bursts[made.key] = replace(made, restricted_to=author)
    return stage


def listed(stage: Stage, limit: int) -> list[Entry]:
    """On all pages."""
    found, page = list[Entry](), driven(stage.tab().page(LEE, limit=limit))
    while True:
        found += [item.entry for item in page.items]
        if page.next is None:
            return found
        assert len(page.items) <= limit
        page = driven(stage.tab().page(LEE, after=page.next, limit=limit))


def drifts(stage: Stage, opened: OpenedInbox) -> float:
    async def nothing(_: float) -> None:
        return

    metrics, g = Metrics(), stage.ground
    driven(Audit(people=g.people, timeline=g.timeline, metrics=metrics, pause=nothing).compare(opened))
    return metrics.registry.get_sample_value("notifier_badge_drift_total") or 0.0


@given(WISHES, OPENED, st.integers(1, 7))
@settings(max_examples=150, deadline=None)
def test_every_burst_is_told_once_in_one_place_and_the_badge_counts_the_list(
    wishes: Wishes, opened: list[tuple[Subject, int, tuple[UserId, ...], UserId | None]], limit: int
) -> None:
    stage, answers = staged(wishes, opened), Openings()
    now, entries = stage.ground.clock.now(), listed(stage, limit)
    assert entries == sorted(entries, key=lambda each: (each.opened_at, each.key), reverse=True)
    singly = [entry.key for entry in entries if isinstance(entry, Burst)]
    digests = [entry for entry in entries if isinstance(entry, Digest)]
    assert max(Counter(date_in(digest.key) for digest in digests).values(), default=1) == 1
    inside = [each.key for digest in digests for each in digest.newest]
    schedule = Schedule.of(Overall(zone=wishes.zone, digest_hour=wishes.hour))
    wanted = {NOVA: wishes.nova, LYRA: wishes.lyra, OF_LEE: Volume.ALL}
    seen = [
        each for each in stage.ground.bursts.by_key.values() if each.mentioners != (BOB,) and each.restricted_to is None
    ]
    volumes = {subject: wishes.overall if said is Volume.DEFAULT else said for subject, said in wanted.items()}
    digested = [each for each in seen if volumes[each.key.subject] is Volume.DIGEST]
    due = [each.key for each in digested if schedule.moment(schedule.day_of(each.opened_at)) <= now]
    assert Counter(inside) == Counter(due)
    assert Counter(singly) == Counter(each.key for each in seen if each not in digested)
    for digest in digests:
        assert all(schedule.day_of(each.opened_at) == date_in(digest.key) for each in digest.newest)
        assert digest.opened_at == schedule.moment(schedule.day_of(digest.newest[0].opened_at)) <= now
        assert digest.count == sum(each.count for each in digest.newest) == sum(n for _, n in digest.accounts)
    tab = replace(stage.tab(), observers=[answers])
    page, badge = driven(tab.open(LEE, limit=limit))
    assert badge is not None
    assert badge.count == len(entries)
    assert drifts(stage, answers[0]) == 0
    if page.seen is not None:
        driven(tab.see(LEE, page.seen))
    assert driven(tab.badge(LEE)).count == 0
    stage.pass_time(days=RETENTION.days)
    assert listed(stage, limit) == []
