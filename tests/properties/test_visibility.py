"""The predicate against the design's own sentence, and what a `seen` may cover."""

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.users.account_preferences import Overall
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.domain.users.visibility import Mark, Marks, Viewer, denied, unread, visible
from tests.support.examples import ADA, BOB, EVE, NOON, NOVA, OF_NOVA, SELF_NOVA, burst

NOW = NOON + RETENTION
OF_EVE = Subject(Kind.MENTION, EVE)
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
    follows=st.dictionaries(st.sampled_from([OF_NOVA, OF_EVE]), MOMENTS | st.just(NEVER)),
    blocked=st.frozensets(USERS),
    volume=st.dictionaries(st.sampled_from([OF_NOVA, SELF_NOVA]), st.sampled_from(Volume)),
    marks=MARKS,
    overall=st.builds(Overall, volume=st.sampled_from([v for v in Volume if v is not Volume.DEFAULT])),
)


def in_the_design_s_words(shown: Burst, to: Viewer) -> bool:
    subject = shown.key.subject
    own = subject.kind is Kind.SELF and subject.owner == to.user
    follows = subject.kind is Kind.MENTION and subject in to.follows and shown.opened_at >= to.follows[subject]
    apart = subject.kind is Kind.MENTION and subject.owner in to.blocked
    author = shown.restricted_to
    volume = to.volume.get(subject, Volume.DEFAULT)
    if volume is Volume.DEFAULT:
        volume = to.overall.volume if subject.kind is Kind.MENTION else Volume.ALL
    silent = to.overall.volume is Volume.OFF and subject.kind is Kind.MENTION
    return all(
        (
            shown.count > 0,
            shown.opened_at > NOW - timedelta(days=90),
            own or (follows and not apart),
            author is None or Subject(Kind.MENTION, author) in to.follows,
            shown.more_mentioners or not set(shown.mentioners) <= set(to.blocked),
            not silent and (volume is Volume.ALL or (volume is Volume.FIRST and shown.first_of_day)),
            to.marks.by_burst.get(shown.key) is not Mark.HIDDEN,
        )
    )


@given(BURSTS, VIEWERS)
@settings(max_examples=400)
def test_what_is_visible_is_what_the_design_says(shown: Burst, to: Viewer) -> None:
    assert visible(shown, to, now=NOW) is in_the_design_s_words(shown, to)
    assert (denied(shown, to, now=NOW) is None) is visible(shown, to, now=NOW)


@given(BURSTS, VIEWERS)
@settings(max_examples=200)
def test_unread_is_what_is_marked_so_or_newer_than_what_was_seen(shown: Burst, to: Viewer) -> None:
    mark, seen_at = to.marks.by_burst.get(shown.key), to.marks.seen_at
    newer = (seen_at is None or shown.opened_at > seen_at) and shown.key not in to.marks.also_seen
    assert unread(shown, to) is (mark is Mark.UNREAD or (mark in {None, Mark.NONE} and newer))


@given(st.lists(st.integers(0, 10_000), unique=True), st.integers(0, 10_000), st.integers(0, 10_000), st.data())
@settings(max_examples=150)
def test_a_seen_page_covers_what_it_showed_and_swallows_nothing_that_became_visible_late(
    opened: list[int], as_of_ms: int, seen_before: int, data: st.DataObject
) -> None:
    def at(ms: int) -> datetime:
        return NOON + timedelta(milliseconds=ms)

    as_of = at(as_of_ms)
    places = {BurstKey(OF_NOVA, seq): at(ms) for seq, ms in enumerate(sorted(opened), 1)}
    shown = set(data.draw(st.lists(st.sampled_from(sorted(places)), unique=True))) if places else set()
    newer = frozenset(key for key in shown if places[key] > as_of)
    before = Marks(seen_at=at(seen_before))
    after = Marks(seen_at=max(at(seen_before), as_of), also_seen=newer)
    for key, moment in places.items():
        assert not (key in shown and after.unseen(key, moment))
        if key not in shown and moment > as_of:
            assert after.unseen(key, moment) is before.unseen(key, moment)


@given(BURSTS, VIEWERS, USERS)
@settings(max_examples=150)
def test_one_more_blocked_account_never_shows_more(shown: Burst, to: Viewer, name: UserId) -> None:
    strict = replace(to, blocked={*to.blocked, name})
    assert visible(shown, to, now=NOW) or not visible(shown, strict, now=NOW)
