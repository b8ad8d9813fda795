"""Retraction settlement: stores retractions, then updates every burst that contains their mentions.

Calls go one way: gateway, retractor and coordinator call the settlement, and the settlement calls the publisher.

- The gateway settles a retraction that it has just appended to the log, so that the next read no longer shows it.
- The retractor reads the same retraction from the log and settles what the gateway did not.
- The coordinator settles the mentions that it has just written, if a retraction arrived meanwhile.

They may run at the same time and for the same retraction. A burst changes only through a compare-and-set of its
subject's head. Each changed mention is written together with its burst. So settling again changes nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from operator import attrgetter

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.mention import Mention
from notifier.domain.bursts.retraction import (
    MentionChange,
    Retraction,
    RetractionKey,
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
from notifier.flow.sequencing.publisher import Publisher
from notifier.ports.bursts import Bursts
from notifier.ports.coordination import Clock, Nonces
from notifier.ports.retractions import MentionLocation, Retractions

MENTIONS_PER_BATCH = 200
"""Mentions in a batch: the head's outbox holds all mentions changed by one swap."""
MAX_JOIN_TIME = timedelta(days=2)
"""Maximum time between the opening of a burst and the acceptance of its mentions, in either direction.

A burst stays open for some hours, and a record waits in the log for at most a day.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetractionSettlement:
    retractions: Retractions
    bursts: Bursts
    publisher: Publisher
    clock: Clock
    nonces: Nonces

    def settle(self, retractions: Collection[Retraction], limit: int | None = None) -> None:
        """Store the retractions and settle the bursts of at most `limit` of their mentions, the latest first.

        No later read shows the retracted content of a settled mention. Raises like `settle_keys`.
        """
        for _ in self.settle_in_batches(retractions, limit):
            pass

    def settle_in_batches(
        self, retractions: Collection[Retraction], limit: int | None = None
    ) -> Iterator[Collection[BurstKey]]:
        """Store the retractions; settle one batch of bursts, and yield it, each time the iterator is advanced."""
        # Store first. A coordinator that writes a mention after this line finds the retraction when it checks for one;
        # a mention written earlier is found under the retraction keys below. A crash after this line leaves bursts
        # unsettled until the retractor reads the record from the log, which is committed only after all of them.
        self.retractions.write(retractions)
        now = self.clock.now()
        return self.settle_keys([key for retraction in retractions for key in retraction.index_keys(now)], limit)

    def settle_keys(self, keys: Iterable[RetractionKey], limit: int | None = None) -> Iterator[Collection[BurstKey]]:
        """Settle the bursts that the keys lead to, yielding each batch: an author may have years of mentions.

        If a burst cannot be settled, for example because its head is unreadable, settle all others first and then raise
        that error.
        """
        places = islice(self.retractions.mention_locations(list(dict.fromkeys(keys))), limit)
        error: Exception | None = None
        while batch := list(islice(places, MENTIONS_PER_BATCH)):
            error = self._settle(_by_subject(batch)) or error
            yield {place.burst for place in batch}
        if error:
            raise error

    def resettle(self, mentions: Sequence[Mention]) -> None:
        """Settle the bursts of those mentions that a retraction has changed since they were read."""
        pairs = zip(mentions, self.current(mentions), strict=True)
        changed = {tweet_key(mention.author, mention.tweet) for mention, after in pairs if after != mention}
        for _ in self.settle_keys(changed):
            pass

    def current(self, mentions: Sequence[Mention]) -> Sequence[Mention]:
        """Return each mention as the stored retractions leave it."""
        return current_mentions(self.retractions, mentions)

    def _settle(self, waiting: Mapping[Subject, Sequence[MentionLocation]]) -> Exception | None:
        try:
            self._settle_together(waiting)
        except OUTAGES:
            raise
        except Exception as error:
            if len(waiting) == 1:
                return error
            failures = [self._settle({subject: places}) for subject, places in waiting.items()]
            return next((failure for failure in failures if failure), None)
        return None

    def _settle_together(self, waiting: Mapping[Subject, Sequence[MentionLocation]]) -> None:
        while waiting:
            heads = self.publisher.finish(waiting)
            decided = {subject: self._next_head(head, waiting[subject]) for subject, head in heads.items()}
            changed_heads = [head for subject, head in decided.items() if head is not heads[subject]]
            won, _ = self.publisher.swap_and_publish(changed_heads)
            settled = won | (set(heads) - {head.subject for head in changed_heads})
            waiting = {subject: locations for subject, locations in waiting.items() if subject not in settled}

    def _next_head(self, head: Head, places: Sequence[MentionLocation]) -> Head:
        """Return the next head, or the same head if nothing changes.

        Mentions and bursts are read after the head. A later change of them also changes the head, so this swap fails.
        """
        changes = self._changes(places)
        bursts = self.bursts.read(changes)
        remaining = [self._amended(burst, changes[key], head.version + 1) for key, burst in bursts.items()]
        if not remaining:
            return head
        changed = [SequencedMention(mention=change.after, seq=key.seq) for key in bursts for change in changes[key]]
        return after_retraction(head, remaining, changed, nonce=self.nonces.new())

    def _changes(self, places: Sequence[MentionLocation]) -> Mapping[BurstKey, list[MentionChange]]:
        stored = self.retractions.read(places)
        changes = defaultdict[BurstKey, list[MentionChange]](list)
        for (place, before), after in zip(stored.items(), self.current([*stored.values()]), strict=True):
            if after != before:
                changes[place.burst].append(MentionChange(before=before, after=after))
        return changes

    def _amended(self, burst: Burst, changes: Sequence[MentionChange], version: int) -> Burst:
        leaving = [change.before for change in changes if change.is_leaving(burst)]
        return amended(burst, changes, self._remaining_mentions(burst, leaving), version=version)

    def _remaining_mentions(self, burst: Burst, leaving: Sequence[Mention]) -> Mapping[UserId, Mention]:
        """Return a remaining mention of each author in question: the one that was accepted first.

        If none of these authors has one, return one of an author that the burst does not name.
        """
        lost = {mention.author for mention in leaving}
        shown = any(mention.tweet == burst.tweet for mention in leaving)
        authors = [name for name in burst.mentioners if name in lost or shown]
        mentions = [mention for author in authors for mention in self._mentions_by(author, burst)]
        if not mentions and (shown or lost.issuperset(burst.mentioners)) and burst.count > len(leaving):
            mentions = list(islice(self._still_counting(burst, self.retractions.mentions_of_burst(burst.key)), 1))
        return {mention.author: mention for mention in sorted(mentions, key=attrgetter("accepted_at"), reverse=True)}

    def _mentions_by(self, author: UserId, burst: Burst) -> Iterable[Mention]:
        days = day_keys(author, burst.opened_at - MAX_JOIN_TIME, burst.opened_at + MAX_JOIN_TIME)
        places = self.retractions.mention_locations(days, burst.key)
        while batch := list(islice(places, MENTIONS_PER_BATCH)):
            yield from self._still_counting(burst, self.retractions.read(batch).values())

    def _still_counting(self, burst: Burst, mentions: Iterable[Mention]) -> Iterator[Mention]:
        """Yield those of a burst's mentions that still count for it after the retractions."""
        remaining = iter(mentions)
        while batch := list(islice(remaining, MENTIONS_PER_BATCH)):
            yield from (mention for mention in self.current(batch) if belongs_to(mention, burst))


def current_mentions(retractions: Retractions, mentions: Sequence[Mention]) -> Sequence[Mention]:
    """Return each mention as the retractions of its tweet and its author leave it."""
    retractions_by_key = retractions.read_current({key for mention in mentions for key in retraction_keys(mention)})
    return [apply_retractions(mention, retractions_by_key) for mention in mentions]


def _by_subject(places: Iterable[MentionLocation]) -> dict[Subject, list[MentionLocation]]:
    locations_by_subject: dict[Subject, list[MentionLocation]] = defaultdict(list)
    for place in places:
        locations_by_subject[place.burst.subject].append(place)
    return dict(locations_by_subject)
