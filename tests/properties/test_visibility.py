"""The visibility predicate against the documented rules, and what a seen token covers."""

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferences
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.domain.users.visibility import Mark, Marks, Viewer, hidden_reason, is_unread, is_visible
from tests.support.domain_examples import ADA, BOB, EVE, NOON, NOVA, OF_NOVA, SELF_NOVA, burst

NOW = NOON + RETENTION
EVE_MENTIONS = Subject(Kind.MENTION, EVE)
MOMENTS = st.sampled_from(
    [NOON - timedelta(1), NOON, NOON + timedelta(milliseconds=1), NOW - timedelta(seconds=1), NOW]
)
KEYS = st.builds(BurstKey, st.sampled_from([OF_NOVA, SELF_NOVA]), st.integers(1, 3))
USERS = st.sampled_from([ADA, BOB, EVE, NOVA])
SOME_USERS = st.lists(USERS, min_size=1, max_size=3, unique=True).map(tuple)

BURSTS = st.builds(
    burst,
    subject=st.sampled_from([OF_NOVA, SELF_NOVA]),
    seq=st.integers(1, 3),
    opened_at=MOMENTS,
    mentioners=SOME_USERS,
    more_mentioners=st.booleans(),
    first_of_day=st.booleans(),
    restricted_to=st.sampled_from([None, None, EVE]),
    count=st.sampled_from([0, 1, 2]),
)
MARKS = st.builds(
    Marks,
    seen_at=st.none() | MOMENTS,
    also_seen=st.frozensets(KEYS),
    by_burst=st.dictionaries(KEYS, st.sampled_from(Mark)),
)
VIEWERS = st.builds(
    Viewer,
    user=USERS,
    follows=st.dictionaries(st.sampled_from([OF_NOVA, EVE_MENTIONS]), MOMENTS | st.just(NEVER)),
    blocked=st.frozensets(USERS),
    volume=st.dictionaries(st.sampled_from([OF_NOVA, SELF_NOVA]), st.sampled_from(Volume)),
    marks=MARKS,
    account_preferences=st.builds(
        AccountPreferences, volume=st.sampled_from([v for v in Volume if v is not Volume.DEFAULT])
    ),
)


def visible_by_documented_rules(burst_: Burst, viewer: Viewer) -> bool:
    subject = burst_.key.subject
    is_own = subject.kind is Kind.SELF and subject.owner == viewer.user
    is_followed = (
        subject.kind is Kind.MENTION and subject in viewer.follows and burst_.opened_at >= viewer.follows[subject]
    )
    is_blocked = subject.kind is Kind.MENTION and subject.owner in viewer.blocked
    author = burst_.restricted_to
    volume = viewer.volume.get(subject, Volume.DEFAULT)
    if volume is Volume.DEFAULT:
        volume = viewer.account_preferences.volume if subject.kind is Kind.MENTION else Volume.ALL
    is_off = viewer.account_preferences.volume is Volume.OFF and subject.kind is Kind.MENTION
    return all(
        (
            burst_.count > 0,
            burst_.opened_at > NOW - timedelta(days=90),
            is_own or (is_followed and not is_blocked),
            author is None or Subject(Kind.MENTION, author) in viewer.follows,
            burst_.more_mentioners or not set(burst_.mentioners) <= set(viewer.blocked),
            not is_off and (volume is Volume.ALL or (volume is Volume.FIRST and burst_.first_of_day)),
            viewer.marks.by_burst.get(burst_.key) is not Mark.HIDDEN,
        )
    )


@given(BURSTS, VIEWERS)
@settings(max_examples=400)
def test_visible_equals_the_documented_rules(burst_: Burst, viewer: Viewer) -> None:
    assert is_visible(burst_, viewer, now=NOW) is visible_by_documented_rules(burst_, viewer)
    assert (hidden_reason(burst_, viewer, now=NOW) is None) is is_visible(burst_, viewer, now=NOW)


@given(BURSTS, VIEWERS)
@settings(max_examples=200)
def test_unread_is_marked_unread_or_newer_than_seen(burst_: Burst, viewer: Viewer) -> None:
    mark, seen_at = viewer.marks.by_burst.get(burst_.key), viewer.marks.seen_at
    newer = (seen_at is None or burst_.opened_at > seen_at) and burst_.key not in viewer.marks.also_seen
    assert is_unread(burst_, viewer) is (mark is Mark.UNREAD or (mark in {None, Mark.NONE} and newer))


@given(st.lists(st.integers(0, 10_000), unique=True), st.integers(0, 10_000), st.integers(0, 10_000), st.data())
@settings(max_examples=150)
def test_seen_token_covers_its_page_and_nothing_that_appeared_late(
    opened_ms: list[int], as_of_ms: int, seen_before: int, data: st.DataObject
) -> None:
    def time_at(ms: int) -> datetime:
        return NOON + timedelta(milliseconds=ms)

    as_of = time_at(as_of_ms)
    opened_at_by_key = {BurstKey(OF_NOVA, seq): time_at(ms) for seq, ms in enumerate(sorted(opened_ms), 1)}
    shown = (
        set(data.draw(st.lists(st.sampled_from(sorted(opened_at_by_key)), unique=True))) if opened_at_by_key else set()
    )
    newer = frozenset(key for key in shown if opened_at_by_key[key] > as_of)
    before = Marks(seen_at=time_at(seen_before))
    after = Marks(seen_at=max(time_at(seen_before), as_of), also_seen=newer)
    for key, opened_at in opened_at_by_key.items():
        assert not (key in shown and after.is_unseen(key, opened_at))
        if key not in shown and opened_at > as_of:
            assert after.is_unseen(key, opened_at) is before.is_unseen(key, opened_at)


@given(BURSTS, VIEWERS, USERS)
@settings(max_examples=150)
def test_blocking_another_account_never_shows_more(burst_: Burst, viewer: Viewer, name: UserId) -> None:
    stricter = replace(viewer, blocked={*viewer.blocked, name})
    assert is_visible(burst_, viewer, now=NOW) or not is_visible(burst_, stricter, now=NOW)
