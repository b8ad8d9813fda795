"""The sequence head keeps its guarantees for any batches, redeliveries and interruptions."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.bursts.burst import MAX_MENTIONERS, Burst
from notifier.domain.bursts.events_and_mentions import EventId, Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.bursts.sequencer import (
    VISIBILITY_DEADLINE,
    Head,
    LoggedMention,
    advance,
    after_publishing,
    after_retraction,
    with_late_bursts_restamped,
)
from notifier.domain.ids import POLICIES, UserId
from tests.support.domain_examples import MINUTE, NOON, OF_NOVA, mention, numbered

POLICY = POLICIES[OF_NOVA.kind]
SMALL, LARGE = 1_000, 2_000_000
SIZES = st.sampled_from([SMALL, LARGE])
MILLISECOND = timedelta(milliseconds=1)
COLLAPSE_WINDOWS = st.sampled_from([None, timedelta(0), timedelta(seconds=5), timedelta(hours=2)])
GAPS = st.sampled_from([0, 1, 999, 1_500, 30_000, 60_000, 3_600_000, 40_000_000]).map(lambda ms: ms * MILLISECOND)


def _mention(n: int, author: int, protected: bool, verdict: Verdict, followers: int) -> Mention:
    return mention(n, author=UserId(f"u{author}"), protected=protected, verdict=verdict, followers=followers)


def mention_lists(followers: int | None = None, *, mostly_protected: bool = False) -> st.SearchStrategy[list[Mention]]:
    """Some mentions share an event; authors repeat, and are more than a burst keeps."""
    one_mention = st.builds(
        _mention,
        st.integers(0, 50),
        st.integers(0, 2 * MAX_MENTIONERS),
        st.booleans() if mostly_protected else st.sampled_from([False, False, False, True]),
        st.sampled_from([Verdict.ALL, Verdict.ALL, Verdict.ROW, Verdict.DENY]),
        SIZES if followers is None else st.just(followers),
    )
    return st.lists(one_mention, min_size=20 if mostly_protected else 0, max_size=40)


@dataclass
class SubjectHistory:
    """A subject's head with everything that was written of it."""

    collapse: timedelta | None
    head: Head = field(default_factory=lambda: Head.empty(OF_NOVA))
    bursts: dict[int, Burst] = field(default_factory=dict)
    """The newest version of each burst, by seq."""
    placed: list[tuple[EventId, int]] = field(default_factory=list)
    mentions_by_event: dict[EventId, Mention] = field(default_factory=dict)

    def apply_batch(
        self,
        records: Sequence[LoggedMention],
        now: datetime,
        *,
        known: Sequence[EventId] = (),
        stalls: Sequence[timedelta] = (),
        written: int = 0,
    ) -> None:
        """Apply one batch. Publishing pauses at each stall; the first `written` bursts are stored before that."""
        self.head = advance(
            self.head, records, sequenced_events=known, now=now, nonce="n", collapse_override=self.collapse
        )
        rows = [burst.key.seq for burst in self.head.outbox][:written]
        for pause in stalls:
            now += pause
            self.head = with_late_bursts_restamped(self.head, planned=rows, now=now, nonce="r")
        self.bursts |= {burst.key.seq: burst for burst in self.head.outbox}
        self.placed += [(record.mention.event, record.seq) for record in self.head.sequenced]
        self.mentions_by_event |= {record.mention.event: record.mention for record in self.head.sequenced}
        if not self.head.is_published:
            self.head = after_publishing(self.head, nonce="p")

    def retract(self, seqs: Collection[int]) -> None:
        retracted = [
            replace(burst, count=0, version=self.head.version + 1) for seq, burst in self.bursts.items() if seq in seqs
        ]
        if retracted:
            self.head = after_publishing(after_retraction(self.head, retracted, [], nonce="t"), nonce="p")
            self.bursts |= {burst.key.seq: burst for burst in retracted}

    def contents(self) -> list[Burst]:
        return [replace(burst, version=0) for _, burst in sorted(self.bursts.items())]


@st.composite
def batches(draw: st.DrawFn, records: Sequence[LoggedMention]) -> list[list[LoggedMention]]:
    """Cut the log into batches; each may begin with records that were read before."""
    cuts = sorted(draw(st.sets(st.integers(0, len(records)))))
    batches_ = []
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        overlap = draw(st.integers(0, start))
        batches_.append(list(records[overlap:end]))
    return batches_


@given(st.data(), mention_lists(), COLLAPSE_WINDOWS)
@settings(max_examples=40)
def test_batches_and_redeliveries_make_the_same_bursts_as_one_batch(
    data: st.DataObject, mentions: list[Mention], collapse: timedelta | None
) -> None:
    log = numbered(*mentions)
    single_batch, many_batches = SubjectHistory(collapse), SubjectHistory(collapse)
    single_batch.apply_batch(log, NOON)
    for batch in data.draw(batches(log)):
        many_batches.apply_batch(batch, NOON, known=[event for event, _ in many_batches.placed])
    assert many_batches.placed == single_batch.placed
    assert many_batches.contents() == single_batch.contents()
    assert (many_batches.head.budget, many_batches.head.restricted_budget) == (
        single_batch.head.budget,
        single_batch.head.restricted_budget,
    )
    assert many_batches.head.applied == single_batch.head.applied


@st.composite
def histories(draw: st.DrawFn, *, followers: int | None = None, calm: bool = False) -> SubjectHistory:
    """Draw a subject's history. Unless calm, clocks go back, publishers stall, and outboxes are half written."""
    history, now = SubjectHistory(draw(COLLAPSE_WINDOWS)), NOON
    for batch in draw(batches(numbered(*draw(mention_lists(followers))))):
        now += draw(GAPS)
        batch_time = now if calm else now - draw(st.sampled_from([0, 5])) * MINUTE
        stalls = [] if calm else draw(st.lists(GAPS.filter(lambda gap: gap <= MINUTE), max_size=2))
        known = [event for event, _ in history.placed]
        history.apply_batch(batch, batch_time, known=known, stalls=stalls, written=draw(st.integers(0, 2)))
        now = max(now, batch_time + sum(stalls, timedelta()))
    return history


@given(histories())
@settings(max_examples=40)
def test_every_event_is_in_one_burst_and_numbers_have_no_gap(history: SubjectHistory) -> None:
    events = [event for event, _ in history.placed]
    assert len(events) == len(set(events))
    assert sorted({seq for _, seq in history.placed}) == sorted(history.bursts) == list(range(1, history.head.seq + 1))
    for seq, burst in history.bursts.items():
        assert burst.count == sum(place == seq for _, place in history.placed)


@given(histories())
@settings(max_examples=40)
def test_bursts_open_in_order_and_never_at_the_same_time(history: SubjectHistory) -> None:
    times = [burst.opened_at for _, burst in sorted(history.bursts.items())]
    assert all(earlier < later for earlier, later in pairwise(times))
    assert history.head.last_opened_at == (times[-1] if times else None)


@given(histories())
@settings(max_examples=40)
def test_burst_keeps_its_first_16_mentioners(history: SubjectHistory) -> None:
    for seq, burst in history.bursts.items():
        authors = list(
            dict.fromkeys(history.mentions_by_event[event].author for event, place in history.placed if place == seq)
        )
        assert list(burst.mentioners) == authors[:MAX_MENTIONERS]
        assert burst.more_mentioners == (len(authors) > MAX_MENTIONERS)


@given(histories())
@settings(max_examples=40)
def test_protected_mention_has_a_burst_of_its_own(history: SubjectHistory) -> None:
    for event, seq in history.placed:
        author = history.mentions_by_event[event].author if history.mentions_by_event[event].protected else None
        assert history.bursts[seq].restricted_to == author
        assert author is None or history.bursts[seq].count == 1


@given(histories(calm=True))
@settings(max_examples=40)
def test_public_bursts_are_a_collapse_window_apart(history: SubjectHistory) -> None:
    public = [burst for _, burst in sorted(history.bursts.items()) if burst.restricted_to is None]
    openers = {seq: history.mentions_by_event[event] for event, seq in reversed(history.placed)}
    for previous, next_ in pairwise(public):
        window = POLICY.collapse_for(openers[next_.key.seq].followers, history.collapse)
        alerts_begin = previous.verdict is not Verdict.ALL and next_.verdict is Verdict.ALL
        assert alerts_begin or next_.opened_at - previous.opened_at >= window


@given(histories(followers=LARGE))
@settings(max_examples=40)
def test_budget_limits_the_fan_outs_of_a_large_subject(history: SubjectHistory) -> None:
    fanned_out = [burst for _, burst in sorted(history.bursts.items()) if not burst.pull_only]
    for restricted in (False, True):
        opened = [burst.opened_at for burst in fanned_out if (burst.restricted_to is not None) is restricted]
        for n, start in enumerate(opened):
            for m, end in enumerate(opened[n:], 1):
                # Plus up to one refill: the clock that refills may be ahead of the one that set the opening time.
                assert m <= POLICY.budget_capacity + (end - start + 10 * MINUTE) / POLICY.budget_refill + 1, (n, m)


@given(mention_lists(LARGE, mostly_protected=True), st.lists(GAPS, min_size=1, max_size=40), COLLAPSE_WINDOWS)
@settings(max_examples=40)
def test_protected_and_public_mentions_do_not_affect_each_other(
    mentions: list[Mention], gaps: list[timedelta], collapse: timedelta | None
) -> None:
    log = numbered(*(replace(mention_, event=EventId("tweets", f"{n}")) for n, mention_ in enumerate(mentions)))

    def bursts_of(*kinds: bool) -> list[tuple[object, ...]]:
        history, now = SubjectHistory(collapse), NOON
        for n, record in enumerate(log):
            now += max(gaps[n % len(gaps)], MILLISECOND)
            if record.mention.protected in kinds:
                history.apply_batch([record], now)
        bursts = [burst for _, burst in sorted(history.bursts.items())]
        return [(b.restricted_to, b.mentioners, b.count, b.opened_at, b.first_of_day, b.pull_only) for b in bursts]

    all_bursts = bursts_of(False, True)
    assert [burst for burst in all_bursts if burst[0] is None] == bursts_of(False)
    assert [burst for burst in all_bursts if burst[0] is not None] == bursts_of(True)


@given(histories(calm=True))
@settings(max_examples=40)
def test_first_burst_of_each_day_is_its_first_public_one(history: SubjectHistory) -> None:
    public = [burst for _, burst in sorted(history.bursts.items()) if burst.restricted_to is None]
    days = {burst.opened_at.date(): burst.key for burst in reversed(public)}
    firsts = [burst.key for burst in history.bursts.values() if burst.first_of_day]
    assert sorted(firsts) == sorted(days.values())


@given(histories())
@settings(max_examples=40)
def test_day_never_has_two_first_bursts_after_restamping(history: SubjectHistory) -> None:
    firsts = [burst.opened_at.date() for burst in history.bursts.values() if burst.first_of_day]
    assert len(firsts) == len(set(firsts))


@given(
    mention_lists(), st.lists(st.tuples(GAPS, st.sets(st.integers(1, 6))), min_size=40, max_size=40), COLLAPSE_WINDOWS
)
@settings(max_examples=40)
def test_public_burst_is_first_of_its_day_if_no_other_is_left(
    mentions: list[Mention], steps: list[tuple[timedelta, set[int]]], collapse: timedelta | None
) -> None:
    history, now = SubjectHistory(collapse), NOON
    for record, (gap, steps_back) in zip(numbered(*mentions), steps, strict=False):
        history.retract({history.head.seq + 1 - n for n in steps_back})
        now += max(gap, MILLISECOND)
        firsts = [burst for burst in history.bursts.values() if burst.first_of_day and burst.count]
        known, seq = [event for event, _ in history.placed], history.head.seq
        history.apply_batch([record], now, known=known)
        if history.head.seq > seq:
            newest = history.bursts[history.head.seq]
            day_has_first = newest.opened_at.date() in {burst.opened_at.date() for burst in firsts}
            assert newest.first_of_day is (newest.restricted_to is None and not day_has_first)


@given(mention_lists(SMALL), st.sets(st.integers(1, 40)), st.integers(0, 5_000))
@settings(max_examples=40)
def test_restamping_delays_only_unwritten_bursts(mentions: list[Mention], written: set[int], milliseconds: int) -> None:
    head = advance(
        Head.empty(OF_NOVA),
        numbered(*mentions),
        sequenced_events=(),
        now=NOON,
        nonce="n",
        collapse_override=timedelta(0),
    )
    now = NOON + milliseconds * MILLISECOND
    restamped_head = with_late_bursts_restamped(head, planned=written, now=now, nonce="r")
    times = [burst.opened_at for burst in restamped_head.outbox]
    assert len(set(times)) == len(times)
    for old, new in zip(head.outbox, restamped_head.outbox, strict=True):
        assert old.opened_at <= new.opened_at
        assert new.key.seq not in written or new == old
        assert new.key.seq in written or now <= new.opened_at + VISIBILITY_DEADLINE
    assert with_late_bursts_restamped(restamped_head, planned=written, now=now, nonce="r") is restamped_head
