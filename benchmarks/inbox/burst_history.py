"""Writes bursts opened before the benchmark, through the store's ports in the write path's order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import count

import numpy as np

from benchmarks.inbox.population import patiently
from notifier.domain.audience.inbox_rows import InboxRows, cut_inbox_rows
from notifier.domain.audience.tiers_and_member_sets import SetKind, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import Event, EventId, Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.bursts.sequencer import Head, LoggedMention, advance, after_publishing
from notifier.domain.ids import Lane, Subject, UserId
from notifier.ports.all_ports import Ports

COLLAPSE = timedelta(minutes=1)
PLACE_PERIOD = timedelta(hours=10)
"""Period in which the bursts of one place opened, the next place in the period before it. Place 1 has the latest."""
MIN_AGE = timedelta(minutes=5)
"""Age of the youngest burst. It no longer changes for any reader."""
SUBJECTS_PER_WRITE = 100
"""Subjects per write."""
PARTITION = "bench-0"
MOST_MENTIONS = 4
"""Maximum number of mentions per burst. The bursts have one to four in turns."""


@dataclass(frozen=True, kw_only=True)
class BurstHistory:
    """Numbers bursts by the product's own heads, then writes bursts, inbox rows and the published heads."""

    ports: Ports
    seed: int = 1

    def write(self, bursts: Mapping[Subject, int]) -> int:
        """Write this many bursts of each subject and return their number. Every follower of a subject gets a row."""
        heads = {subject: Head.empty(subject) for subject in bursts}
        offsets, turns = count(), max(bursts.values())
        for turn in range(turns):
            opened = self._opened([subject for subject in bursts if turn < bursts[subject]], turns - turn)
            for first in range(0, len(opened), SUBJECTS_PER_WRITE):
                batch = opened[first : first + SUBJECTS_PER_WRITE]
                decided = [self._decided(heads[subject], at, offsets) for subject, at in batch]
                heads |= {head.subject: head for head in self._publish(decided)}
        return sum(bursts.values())

    def _opened(self, subjects: Sequence[Subject], place: int) -> Sequence[tuple[Subject, datetime]]:
        """Return when each subject's burst opened. The bursts at place 1 are the youngest."""
        newest = self.ports.clock.now() - MIN_AGE - PLACE_PERIOD * (place - 1)
        longest = PLACE_PERIOD // timedelta(milliseconds=1)  # stores keep milliseconds
        ages = np.random.default_rng([self.seed, place]).integers(0, longest, size=len(subjects))
        return [
            (subject, newest - timedelta(milliseconds=age))
            for subject, age in zip(subjects, ages.tolist(), strict=True)
        ]

    def _decided(self, head: Head, at: datetime, offsets: Iterator[int]) -> Head:
        mentions, nonce = list(_mentions(head.subject, at, offsets)), self.ports.nonces.new()
        return advance(head, mentions, sequenced_events=(), now=at, nonce=nonce, collapse_override=COLLAPSE)

    def _publish(self, decided: Sequence[Head]) -> Sequence[Head]:
        """Write the heads first and last, as a coordinator does: the next start completes a crash in between."""
        self._swap(decided)
        outbox = [burst for head in decided for burst in head.outbox]
        mentions = [mention for head in decided for mention in head.sequenced]
        patiently(lambda: self.ports.bursts.write(outbox, mentions))
        # In one call: short transactions of a few rows each would take most of the loading time.
        rows = [rows for burst in outbox for rows in patiently(partial(self._rows, burst))]
        patiently(lambda: self.ports.inbox.write(rows))
        done = [after_publishing(head, nonce=self.ports.nonces.new()) for head in decided]
        self._swap(done)
        return done

    def _swap(self, heads: Sequence[Head]) -> None:
        """Swap the heads. A retried swap finds its own head by the nonce, and counts as won."""
        won = patiently(lambda: self.ports.heads.compare_and_set(heads))
        assert all(won), "another process writes to the benchmark's store"

    def _rows(self, burst: Burst) -> list[InboxRows]:
        followers = self.ports.sets.read(SetKind.FOLLOWERS, burst.key.subject, [0])
        return [
            cut_inbox_rows(bits, burst=burst.key, opened_at=burst.opened_at, tier=Tier.P1, shard=shard)
            for shard, bits in followers.items()
        ]


def _mentions(subject: Subject, at: datetime, offsets: Iterator[int]) -> Iterator[LoggedMention]:
    """Yield one to four mentions of a subject at the same time, by different authors."""
    first = next(offsets)
    for number in range(1 + first % MOST_MENTIONS):
        offset = first if not number else next(offsets)
        event = Event(
            id=EventId("bench", f"before-{offset}"),
            tweet=f"tweet-before-{offset}",
            author=UserId(f"u{(offset * 7919) % 2_000}"),
            mentioned=(subject.owner,),
            text=f"have you seen @{subject.owner}?",
            protected=False,
            happened_at=at,
            accepted_at=at,
        )
        mention = Mention.from_event(event, subject, Verdict.ALL, lane=Lane.STANDARD, followers=1_000)
        yield LoggedMention(partition=PARTITION, offset=offset, mention=mention)
