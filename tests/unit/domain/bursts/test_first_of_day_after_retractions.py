"""First burst of a day: after retractions, and after a move past midnight."""

from dataclasses import replace
from datetime import UTC, datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.bursts.sequencer import (
    Head,
    advance,
    after_publishing,
    after_retraction,
    with_late_bursts_restamped,
)
from tests.support.domain_examples import ADA, HOUR, MINUTE, NOON, OF_NOVA, SECOND, advanced, mention, numbered

FRESH = Head.empty(OF_NOVA)
MIDNIGHT = datetime(2026, 1, 6, tzinfo=UTC)


def opened(head: Head) -> Burst:
    assert head.open is not None
    return head.open


def emptied(head: Head, burst: Burst) -> Head:
    """Return the head after all of the burst was retracted."""
    return after_publishing(after_retraction(head, [replace(burst, count=0)], [], nonce="t"), nonce="p")


def test_next_opened_burst_is_first_after_a_retraction() -> None:
    head = advanced(FRESH, mention(1))
    first, head = opened(head), advanced(head, mention(2), now=NOON + MINUTE)
    head = advanced(emptied(head, first), mention(3), now=NOON + MINUTE + SECOND)
    assert (opened(head).key.seq, opened(head).count, opened(head).first_of_day) == (2, 2, False)
    head = advanced(head, mention(4), now=NOON + 2 * MINUTE)
    assert (opened(head).key.seq, opened(head).first_of_day) == (3, True)
    head = advanced(head, mention(5), now=NOON + 3 * MINUTE)
    assert not opened(head).first_of_day


def test_burst_narrowed_earlier_does_not_cost_the_current_first() -> None:
    head = advanced(FRESH, mention(1))
    first = opened(head)
    narrowed = replace(first, restricted_to=ADA)
    head = after_publishing(after_retraction(head, [narrowed], [], nonce="t"), nonce="p")
    head = advanced(head, mention(2), now=NOON + MINUTE)
    assert opened(head).first_of_day
    assert not opened(advanced(emptied(head, narrowed), mention(3), now=NOON + 2 * MINUTE)).first_of_day


def test_retracting_yesterdays_first_keeps_todays_first() -> None:
    head = advanced(FRESH, mention(1), now=MIDNIGHT - MINUTE)
    first, head = opened(head), advanced(head, mention(2), now=MIDNIGHT)
    second, head = opened(head), advanced(head, mention(3), now=MIDNIGHT + MINUTE)
    head = emptied(emptied(head, opened(head)), first)
    head = advanced(head, mention(4), now=MIDNIGHT + 2 * MINUTE)
    assert (second.first_of_day, opened(head).first_of_day) == (True, False)


def test_restamped_first_stays_first_behind_another_burst() -> None:
    head = advanced(FRESH, mention(1))
    first, head = opened(head), advanced(head, mention(2, verdict=Verdict.ROW), now=NOON + MINUTE)
    records = numbered(mention(3, verdict=Verdict.ROW), mention(4), first=2)
    head = advance(emptied(head, first), records, sequenced_events=(), now=NOON + MINUTE, nonce="n")
    assert [(burst.count, burst.first_of_day) for burst in head.outbox] == [(2, False), (1, True)]
    after = with_late_bursts_restamped(head, planned=(), now=NOON + 2 * MINUTE, nonce="r")
    assert [burst.first_of_day for burst in after.outbox] == [False, True]
    head = after_publishing(after, nonce="p")
    assert not opened(advanced(head, mention(5), now=NOON + HOUR)).first_of_day
