"""Retraction settlement: stores retractions, then updates the bursts that contain their mentions.

The gateway, the retractor and the coordinator may settle the same retraction at the same time. A burst changes only
through a compare-and-set of its subject's head, and a changed mention is written together with its burst. So settling
again changes nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from operator import attrgetter

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import Mention
from notifier.domain.bursts.retraction import (
    LookupKey,
    MentionChange,
    Retraction,
    amended,
    apply_retractions,
    belongs_to,
    day_keys,
    retraction_keys,
    tweet_key,
)
from notifier.domain.bursts.sequencer import Head, SequencedMention, after_retraction
from notifier.domain.errors import OUTAGES
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.flow.sequencing.burst_publishing_and_planning import Publisher
from notifier.ports.bursts import Bursts
from notifier.ports.leases_queues_throttles_clock import Clock, Nonces
from notifier.ports.moderation_and_retractions import MentionLocation, Retractions

MENTIONS_PER_BATCH = 200
"""Mentions per batch. The outbox of a head holds all mentions that one compare-and-set changes, and must stay small."""
ACCEPTANCE_MARGIN = timedelta(days=2)
"""The mentions of a burst are accepted within this time before or after its opening.

Before: a mention may wait in the log for a day until it is sequenced. After: a mention may join hours later.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetractionSettlement:
    retractions: Retractions
    bursts: Bursts
    publisher: Publisher
    clock: Clock
    nonces: Nonces

    def settle(self, retractions: Collection[Retraction], limit: int | None = None) -> None:
        """Store the retractions, and settle the bursts of at most `limit` of their mentions; without a limit, of all.

        If a retraction concerns all mentions of an author, those of the latest day come first.
        """
        for _ in self.settle_in_batches(retractions, limit):
            pass

    def settle_in_batches(
        self, retractions: Collection[Retraction], limit: int | None = None
    ) -> Iterator[Collection[BurstKey]]:
        """Store the retractions. Each step of the returned iterator settles a batch of bursts and yields their keys."""
        # Store first. A mention written before this line is found under the lookup keys below. A coordinator that
        # writes a mention later checks for retractions afterwards, and finds these.
        self.retractions.write(retractions)
        now = self.clock.now()
        return self.settle_keys(
            [key for retraction in retractions for key in retraction.mention_lookup_keys(now)], limit
        )

    def settle_keys(self, keys: Iterable[LookupKey], limit: int | None = None) -> Iterator[Collection[BurstKey]]:
        """Settle the bursts of the mentions under these lookup keys. Yield the burst keys of each batch.

        The batches limit the memory, since an author may have years of mentions. An outage ends the call at once. If a
        burst can't be settled for another reason, such as an unreadable head, an error is raised after all other bursts
        are settled.
        """
        locations = islice(self.retractions.mention_locations(list(dict.fromkeys(keys))), limit)
        error: Exception | None = None
        while batch := list(islice(locations, MENTIONS_PER_BATCH)):
            error = self._settle(_group_by_subject(batch)) or error
            yield {location.burst for location in batch}
        if error:
            raise error

    def resettle(self, mentions: Sequence[Mention]) -> None:
        """Settle the bursts of those mentions that a stored retraction now changes."""
        pairs = zip(mentions, self.current(mentions), strict=True)
        changed_tweets = {tweet_key(mention.author, mention.tweet) for mention, after in pairs if after != mention}
        for _ in self.settle_keys(changed_tweets):
            pass

    def current(self, mentions: Sequence[Mention]) -> Sequence[Mention]:
        return current_mentions(self.retractions, mentions)

    def _settle(self, by_subject: Mapping[Subject, Sequence[MentionLocation]]) -> Exception | None:
        """Settle the subjects together, or one by one if that fails; return the first error. Outages are raised."""
        try:
            self._settle_together(by_subject)
        except OUTAGES:
            raise
        except Exception as error:
            if len(by_subject) == 1:
                return error
            failures = [self._settle({subject: locations}) for subject, locations in by_subject.items()]
            return next((failure for failure in failures if failure), None)
        return None

    def _settle_together(self, remaining: Mapping[Subject, Sequence[MentionLocation]]) -> None:
        while remaining:
            heads = self.publisher.finish_publishing(remaining)
            next_heads = {subject: self._next_head(head, remaining[subject]) for subject, head in heads.items()}
            changed_heads = [head for subject, head in next_heads.items() if head is not heads[subject]]
            swapped_subjects, _ = self.publisher.swap_and_publish(changed_heads)
            settled = swapped_subjects | (set(heads) - {head.subject for head in changed_heads})
            remaining = {subject: locations for subject, locations in remaining.items() if subject not in settled}

    def _next_head(self, head: Head, locations: Sequence[MentionLocation]) -> Head:
        """Return the next head, or the same head if nothing changes.

        Mentions and bursts are read after the head. A process that changes them later changes the head first, and then
        our compare-and-set fails.
        """
        changes = self._read_changes(locations)
        bursts = self.bursts.read(changes)
        amended_bursts = [self._amended(burst, changes[key], head.version + 1) for key, burst in bursts.items()]
        if not amended_bursts:
            return head
        changed = [SequencedMention(mention=change.after, seq=key.seq) for key in bursts for change in changes[key]]
        return after_retraction(head, amended_bursts, changed, nonce=self.nonces.new())

    def _read_changes(self, locations: Sequence[MentionLocation]) -> Mapping[BurstKey, list[MentionChange]]:
        stored = self.retractions.read_mentions(locations)
        changes = defaultdict[BurstKey, list[MentionChange]](list)
        for (location, before), after in zip(stored.items(), self.current([*stored.values()]), strict=True):
            if after != before:
                changes[location.burst].append(MentionChange(before=before, after=after))
        return changes

    def _amended(self, burst: Burst, changes: Sequence[MentionChange], version: int) -> Burst:
        leaving = [change.before for change in changes if change.is_leaving(burst)]
        return amended(burst, changes, self._remaining_mentions(burst, leaving), version=version)

    def _remaining_mentions(self, burst: Burst, leaving: Sequence[Mention]) -> Mapping[UserId, Mention]:
        """Return mentions that stay in the burst, one per author, as `amended` needs them.

        They are by mentioners with a leaving mention, or by all mentioners if the shown tweet leaves. If these have no
        mention that stays, but the burst needs a new mentioner, one mention by any author is returned.
        """
        leaving_authors = {mention.author for mention in leaving}
        shown_tweet_leaves = any(mention.tweet == burst.tweet for mention in leaving)
        affected_authors = [name for name in burst.mentioners if name in leaving_authors or shown_tweet_leaves]
        mentions = [mention for author in affected_authors for mention in self._mentions_by(author, burst)]
        needs_new_mentioner = shown_tweet_leaves or leaving_authors.issuperset(burst.mentioners)
        if not mentions and needs_new_mentioner and burst.count > len(leaving):
            mentions = list(islice(self._staying(burst, self.retractions.mentions_of_burst(burst.key)), 1))
        return {mention.author: mention for mention in sorted(mentions, key=attrgetter("accepted_at"), reverse=True)}

    def _mentions_by(self, author: UserId, burst: Burst) -> Iterable[Mention]:
        days = day_keys(author, burst.opened_at - ACCEPTANCE_MARGIN, burst.opened_at + ACCEPTANCE_MARGIN)
        locations = self.retractions.mention_locations(days, burst.key)
        while batch := list(islice(locations, MENTIONS_PER_BATCH)):
            yield from self._staying(burst, self.retractions.read_mentions(batch).values())

    def _staying(self, burst: Burst, mentions: Iterable[Mention]) -> Iterator[Mention]:
        """Yield the mentions that belong to the burst after the stored retractions are applied."""
        remaining = iter(mentions)
        while batch := list(islice(remaining, MENTIONS_PER_BATCH)):
            yield from (mention for mention in self.current(batch) if belongs_to(mention, burst))


def current_mentions(retractions: Retractions, mentions: Sequence[Mention]) -> Sequence[Mention]:
    """Return each mention with the stored retractions of its tweet and its author applied."""
    retractions_by_key = retractions.read_current({key for mention in mentions for key in retraction_keys(mention)})
    return [apply_retractions(mention, retractions_by_key) for mention in mentions]


def _group_by_subject(locations: Iterable[MentionLocation]) -> dict[Subject, list[MentionLocation]]:
    locations_by_subject: dict[Subject, list[MentionLocation]] = defaultdict(list)
    for location in locations:
        locations_by_subject[location.burst.subject].append(location)
    return dict(locations_by_subject)
