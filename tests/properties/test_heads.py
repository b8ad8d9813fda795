"""The head keeps its word however its log is cut into batches, repeated, and interrupted."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.bursts.burst import KEPT_MENTIONERS, Burst
from notifier.domain.bursts.mention import EventId, Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.bursts.sequencer import VISIBLE_WITHIN, Head, Numbered, advance, published, restamped, taken_back
from notifier.domain.ids import POLICIES, UserId
from tests.support.examples import MINUTE, NOON, OF_NOVA, mention, numbered

POLICY = POLICIES[OF_NOVA.kind]
SMALL, LARGE = 1_000, 2_000_000
SIZES = st.sampled_from([SMALL, LARGE])
MILLISECOND = timedelta(milliseconds=1)
WISHES = st.sampled_from([None, timedelta(0), timedelta(seconds=5), timedelta(hours=2)])
GAPS = st.sampled_from([0, 1, 999, 1_500, 30_000, 60_000, 3_600_000, 40_000_000]).map(lambda ms: ms * MILLISECOND)


def _mention(n: int, author: int, protected: bool, verdict: Verdict, followers: int) -> Mention:
    return mention(n, author=UserId(f"u{author}"), protected=protected, verdict=verdict, followers=followers)


def mentions(followers: int | None = None, *, secretive: bool = False) -> st.SearchStrategy[list[Mention]]:
    """Some of them of the same event; few enough authors to repeat, enough to be more than a burst keeps."""
    one = st.builds(
        _mention,
        st.integers(0, 50),
        st.integers(0, 2 * KEPT_MENTIONERS),
        st.booleans() if secretive else st.sampled_from([False, False, False, True]),
        st.sampled_from([Verdict.ALL, Verdict.ALL, Verdict.ROW, Verdict.DENY]),
        SIZES if followers is None else st.just(followers),
    )
    return st.lists(one, min_size=20 if secretive else 0, max_size=40)


@dataclass
class Story:
    """A subject's head with everything that was ever written of it."""

    collapse: timedelta | None
    head: Head = field(default_factory=lambda: Head.fresh(OF_NOVA))
    bursts: dict[int, Burst] = field(default_factory=dict)
    """By seq; the newest version."""
    placed: list[tuple[EventId, int]] = field(default_factory=list)
    asked: dict[EventId, Mention] = field(default_factory=dict)

    def take(
        self,
        records: Sequence[Numbered],
        now: datetime,
        *,
        known: Sequence[EventId] = (),
        stalls: Sequence[timedelta] = (),
        written: int = 0,
    ) -> None:
        """One batch. At each stall the publisher stands still so long; `written` bursts stood by the first."""
        self.head = advance(self.head, records, known=known, now=now, nonce="n", collapse=self.collapse)
        rows = [burst.key.seq for burst in self.head.outbox][:written]
        for stall in stalls:
            now += stall
            self.head = restamped(self.head, written=rows, now=now, nonce="r")
        self.bursts |= {burst.key.seq: burst for burst in self.head.outbox}
        self.placed += [(one.mention.event, one.seq) for one in self.head.sequenced]
        self.asked |= {one.mention.event: one.mention for one in self.head.sequenced}
        if not self.head.published:
            self.head = published(self.head, nonce="p")

    def take_back(self, seqs: Collection[int]) -> None:
        gone = [replace(burst, count=0, version=self.head.version + 1) for s, burst in self.bursts.items() if s in seqs]
        if gone:
            self.head = published(taken_back(self.head, gone, [], nonce="t"), nonce="p")
            self.bursts |= {burst.key.seq: burst for burst in gone}

    def contents(self) -> list[Burst]:
        return [replace(burst, version=0) for _, burst in sorted(self.bursts.items())]


@st.composite
def batches(draw: st.DrawFn, records: Sequence[Numbered]) -> list[list[Numbered]]:
    """The log in pieces, each of which may begin with what was read before."""
    cuts = sorted(draw(st.sets(st.integers(0, len(records)))))
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        again = draw(st.integers(0, start))
        found.append(list(records[again:end]))
    return found


@given(st.data(), mentions(), WISHES)
@settings(max_examples=80)
def test_batches_and_redeliveries_make_the_same_bursts_as_one_batch(
    data: st.DataObject, said: list[Mention], collapse: timedelta | None
) -> None:
    log = numbered(*said)
    whole, pieces = Story(collapse), Story(collapse)
    whole.take(log, NOON)
    for batch in data.draw(batches(log)):
        pieces.take(batch, NOON, known=[event for event, _ in pieces.placed])
    assert pieces.placed == whole.placed
    assert pieces.contents() == whole.contents()
    assert (pieces.head.budget, pieces.head.purse) == (whole.head.budget, whole.head.purse)
    assert pieces.head.applied == whole.head.applied


@st.composite
def stories(draw: st.DrawFn, *, followers: int | None = None, calm: bool = False) -> Story:
    """Days in the life of a subject; not calm: with clocks that go back, stalls, and half-written outboxes."""
    story, now = Story(draw(WISHES)), NOON
    for batch in draw(batches(numbered(*draw(mentions(followers))))):
        now += draw(GAPS)
        told = now if calm else now - draw(st.sampled_from([0, 5])) * MINUTE
        stalls = [] if calm else draw(st.lists(GAPS.filter(lambda gap: gap <= MINUTE), max_size=2))
        known = [event for event, _ in story.placed]
        story.take(batch, told, known=known, stalls=stalls, written=draw(st.integers(0, 2)))
        now = max(now, told + sum(stalls, timedelta()))
    return story


@given(stories())
@settings(max_examples=80)
def test_every_event_is_in_one_burst_and_the_numbers_have_no_gap(story: Story) -> None:
    events = [event for event, _ in story.placed]
    assert len(events) == len(set(events))
    assert sorted({seq for _, seq in story.placed}) == sorted(story.bursts) == list(range(1, story.head.seq + 1))
    for seq, burst in story.bursts.items():
        assert burst.count == sum(place == seq for _, place in story.placed)


@given(stories())
@settings(max_examples=80)
def test_bursts_open_in_the_order_of_their_numbers_and_no_two_at_once(story: Story) -> None:
    times = [burst.opened_at for _, burst in sorted(story.bursts.items())]
    assert all(earlier < later for earlier, later in pairwise(times))
    assert story.head.last_opened_at == (times[-1] if times else None)


@given(stories())
@settings(max_examples=80)
def test_a_burst_keeps_its_first_16_mentioners_and_knows_whether_there_are_more(story: Story) -> None:
    for seq, burst in story.bursts.items():
        authors = list(dict.fromkeys(story.asked[event].author for event, place in story.placed if place == seq))
        assert list(burst.mentioners) == authors[:KEPT_MENTIONERS]
        assert burst.more_mentioners == (len(authors) > KEPT_MENTIONERS)


@given(stories())
@settings(max_examples=80)
def test_a_protected_mention_is_alone_and_in_nobody_else_s_count(story: Story) -> None:
    for event, seq in story.placed:
        author = story.asked[event].author if story.asked[event].protected else None
        assert story.bursts[seq].restricted_to == author
        assert author is None or story.bursts[seq].count == 1


@given(stories(calm=True))
@settings(max_examples=80)
def test_public_bursts_keep_the_window_between_them(story: Story) -> None:
    shared = [burst for _, burst in sorted(story.bursts.items()) if burst.restricted_to is None]
    openers = {seq: story.asked[event] for event, seq in reversed(story.placed)}
    for before, after in pairwise(shared):
        window = POLICY.collapse_for(openers[after.key.seq].followers, story.collapse)
        silenced = before.verdict is not Verdict.ALL and after.verdict is Verdict.ALL
        assert silenced or after.opened_at - before.opened_at >= window


@given(stories(followers=LARGE))
@settings(max_examples=80)
def test_the_budget_bounds_the_fan_outs_however_often_a_large_subject_is_mentioned(story: Story) -> None:
    fanned_out = [burst for _, burst in sorted(story.bursts.items()) if not burst.pull_only]
    for restricted in (False, True):
        opened = [burst.opened_at for burst in fanned_out if (burst.restricted_to is not None) is restricted]
        for n, start in enumerate(opened):
            for m, end in enumerate(opened[n:], 1):
                # Up to one refill's worth: the clock that refills may be ahead of the one that stamped.
                assert m <= POLICY.budget_capacity + (end - start + 10 * MINUTE) / POLICY.budget_refill + 1, (n, m)


@given(mentions(LARGE, secretive=True), st.lists(GAPS, min_size=1, max_size=40), WISHES)
@settings(max_examples=80)
def test_what_protected_accounts_say_changes_nothing_for_the_public_nor_the_other_way_round(
    said: list[Mention], gaps: list[timedelta], collapse: timedelta | None
) -> None:
    log = numbered(*(replace(one, event=EventId("tweets", f"{n}")) for n, one in enumerate(said)))

    def told(*kinds: bool) -> list[tuple[object, ...]]:
        story, now = Story(collapse), NOON
        for n, record in enumerate(log):
            now += max(gaps[n % len(gaps)], MILLISECOND)
            if record.mention.protected in kinds:
                story.take([record], now)
        bursts = [burst for _, burst in sorted(story.bursts.items())]
        return [(b.restricted_to, b.mentioners, b.count, b.opened_at, b.first_of_day, b.pull_only) for b in bursts]

    both = told(False, True)
    assert [one for one in both if one[0] is None] == told(False)
    assert [one for one in both if one[0] is not None] == told(True)


@given(stories(calm=True))
@settings(max_examples=80)
def test_each_day_has_one_first_burst_and_it_is_the_first_public_one(story: Story) -> None:
    shared = [burst for _, burst in sorted(story.bursts.items()) if burst.restricted_to is None]
    days = {burst.opened_at.date(): burst.key for burst in reversed(shared)}
    firsts = [burst.key for burst in story.bursts.values() if burst.first_of_day]
    assert sorted(firsts) == sorted(days.values())


@given(stories())
@settings(max_examples=80)
def test_no_day_has_two_first_bursts_whatever_was_restamped(story: Story) -> None:
    firsts = [burst.opened_at.date() for burst in story.bursts.values() if burst.first_of_day]
    assert len(firsts) == len(set(firsts))


@given(mentions(), st.lists(st.tuples(GAPS, st.sets(st.integers(1, 6))), min_size=40, max_size=40), WISHES)
@settings(max_examples=80)
def test_a_public_burst_is_its_day_s_first_where_none_that_was_so_still_stands(
    said: list[Mention], between: list[tuple[timedelta, set[int]]], collapse: timedelta | None
) -> None:
    story, now = Story(collapse), NOON
    for record, (gap, back) in zip(numbered(*said), between, strict=False):
        story.take_back({story.head.seq + 1 - n for n in back})
        now += max(gap, MILLISECOND)
        before = [burst for burst in story.bursts.values() if burst.first_of_day and burst.count]
        known, seq = [event for event, _ in story.placed], story.head.seq
        story.take([record], now, known=known)
        if story.head.seq > seq:
            one = story.bursts[story.head.seq]
            stands = one.opened_at.date() in {burst.opened_at.date() for burst in before}
            assert one.first_of_day is (one.restricted_to is None and not stands)


@given(mentions(SMALL), st.sets(st.integers(1, 40)), st.integers(0, 5_000))
@settings(max_examples=80)
def test_restamping_leaves_nothing_unwritten_late_and_moves_nothing_written(
    said: list[Mention], written: set[int], waited: int
) -> None:
    before = advance(Head.fresh(OF_NOVA), numbered(*said), known=(), now=NOON, nonce="n", collapse=timedelta(0))
    now = NOON + waited * MILLISECOND
    after = restamped(before, written=written, now=now, nonce="r")
    times = [burst.opened_at for burst in after.outbox]
    assert len(set(times)) == len(times)
    for old, new in zip(before.outbox, after.outbox, strict=True):
        assert old.opened_at <= new.opened_at
        assert new.key.seq not in written or new == old
        assert new.key.seq in written or now <= new.opened_at + VISIBLE_WITHIN
    assert restamped(after, written=written, now=now, nonce="r") is after
