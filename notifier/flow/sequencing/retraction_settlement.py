"""Retraction settlement: stores retractions, then updates every burst that contains their mentions.

Calls go one way: gateway, retractor and coordinator call the settlement, and the settlement calls the publisher.

- The gateway settles a retraction that it has just appended to the log, so that the next read no longer shows it.
- The retractor reads the same retraction from the log and settles whatever the gateway didn't.
- The coordinator settles the mentions that it has just written, if a retraction arrived meanwhile.

They may run at the same time and for the same retraction. A burst changes only through a compare-and-set of its
subject's head, and each changed mention is written together with its burst, so settling again changes nothing.
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
    Trail,
    amended,
    as_it_stands,
    counts,
    day_trails,
    stands_under,
    tweet_trail,
)
from notifier.domain.bursts.sequencer import Head, Sequenced, taken_back
from notifier.domain.errors import OUTAGES
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.flow.sequencing.publisher import Publisher
from notifier.ports.bursts import Bursts
from notifier.ports.coordination import Clock, Nonces
from notifier.ports.retractions import MentionLocation, Retractions

AT_ONCE = 200
"""Mentions; a head's outbox holds those that one swap changes."""
JOINS_WITHIN = timedelta(days=2)
"""Before a burst opened, or after it, the mentions in it were accepted: a window lasts some hours, and a record waits
in the log for a day at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetractionSettlement:
    retractions: Retractions
    bursts: Bursts
    publisher: Publisher
    clock: Clock
    nonces: Nonces

    def settle(self, retractions: Collection[Retraction], limit: int | None = None) -> None:
        """Store the retractions and settle the bursts of at most `limit` of their mentions, the latest first.

        No later read shows a mention that was settled. Raises like `settle_along`.
        """
        for _ in self.settle_in_batches(retractions, limit):
            pass

    def settle_in_batches(
        self, retractions: Collection[Retraction], limit: int | None = None
    ) -> Iterator[Collection[BurstKey]]:
        """Store the retractions; settle one batch of bursts, and yield it, each time the iterator is advanced."""
        # Store first. A coordinator that writes a mention from here on finds the retraction when it checks for one;
        # a mention written earlier is found by following the trails below. A crash after this line leaves bursts
        # unsettled until the retractor reads the record from the log, which is committed only after all of them.
        self.retractions.write(retractions)
        now = self.clock.now()
        return self.settle_along([trail for each in retractions for trail in each.leads_to(now)], limit)

    def settle_along(self, trails: Iterable[Trail], limit: int | None = None) -> Iterator[Collection[BurstKey]]:
        """Settle the bursts that the trails lead to, yielding each batch: an author may have years of mentions.

        If a burst can't be settled, for example because its head is unreadable, settles all others first and then
        raises that error.
        """
        places = islice(self.retractions.along(list(dict.fromkeys(trails))), limit)
        error: Exception | None = None
        while batch := list(islice(places, AT_ONCE)):
            error = self._settle(_by_subject(batch)) or error
            yield {place.burst for place in batch}
        if error:
            raise error

    def resettle(self, mentions: Sequence[Mention]) -> None:
        """Settle the bursts of those mentions that a retraction has changed since they were read."""
        pairs = zip(mentions, self.current(mentions), strict=True)
        changed = {tweet_trail(mention.author, mention.tweet) for mention, after in pairs if after != mention}
        for _ in self.settle_along(changed):
            pass

    def current(self, mentions: Sequence[Mention]) -> Sequence[Mention]:
        """Return each mention as the stored retractions leave it."""
        return current(self.retractions, mentions)

    def _settle(self, waiting: Mapping[Subject, Sequence[MentionLocation]]) -> Exception | None:
        try:
            self._settle_together(waiting)
        except OUTAGES:
            raise
        except Exception as wrong:
            if len(waiting) == 1:
                return wrong
            alone = [self._settle({subject: places}) for subject, places in waiting.items()]
            return next((each for each in alone if each), None)
        return None

    def _settle_together(self, waiting: Mapping[Subject, Sequence[MentionLocation]]) -> None:
        while waiting:
            heads = self.publisher.finish(waiting)
            decided = {subject: self._decided(head, waiting[subject]) for subject, head in heads.items()}
            news = [head for subject, head in decided.items() if head is not heads[subject]]
            won, _ = self.publisher.swap_and_publish(news)
            settled = won | (set(heads) - {head.subject for head in news})
            waiting = {subject: rest for subject, rest in waiting.items() if subject not in settled}

    def _decided(self, head: Head, places: Sequence[MentionLocation]) -> Head:
        """The same head where nothing is to be changed. Mentions and bursts are read behind it: whoever changes them
        from here on has changed the head, too, and ours isn't swapped."""
        changes = self._changes(places)
        bursts = self.bursts.read(changes)
        left = [self._amended(burst, changes[key], head.version + 1) for key, burst in bursts.items()]
        if not left:
            return head
        changed = [Sequenced(mention=one.after, seq=key.seq) for key in bursts for one in changes[key]]
        return taken_back(head, left, changed, nonce=self.nonces.new())

    def _changes(self, places: Sequence[MentionLocation]) -> Mapping[BurstKey, list[MentionChange]]:
        stored = self.retractions.read(places)
        found = defaultdict[BurstKey, list[MentionChange]](list)
        for (place, before), after in zip(stored.items(), self.current([*stored.values()]), strict=True):
            if after != before:
                found[place.burst].append(MentionChange(before=before, after=after))
        return found

    def _amended(self, burst: Burst, changes: Sequence[MentionChange], version: int) -> Burst:
        leaving = [change.before for change in changes if change.leaves(burst)]
        return amended(burst, changes, self._rest(burst, leaving), version=version)

    def _rest(self, burst: Burst, leaving: Sequence[Mention]) -> Mapping[UserId, Mention]:
        """A mention that stays, of each author in question: the first, by when it was accepted. Where none of those has
        one, whoever said so and isn't named may have."""
        lost = {mention.author for mention in leaving}
        shown = any(mention.tweet == burst.tweet for mention in leaving)
        authors = [name for name in burst.mentioners if name in lost or shown]
        found = [mention for author in authors for mention in self._by(author, burst)]
        if not found and (shown or lost.issuperset(burst.mentioners)) and burst.count > len(leaving):
            found = list(islice(self._staying(burst, self.retractions.within(burst.key)), 1))
        return {mention.author: mention for mention in sorted(found, key=attrgetter("accepted_at"), reverse=True)}

    def _by(self, author: UserId, burst: Burst) -> Iterable[Mention]:
        days = day_trails(author, burst.opened_at - JOINS_WITHIN, burst.opened_at + JOINS_WITHIN)
        places = self.retractions.along(days, burst.key)
        while some := list(islice(places, AT_ONCE)):
            yield from self._staying(burst, self.retractions.read(some).values())

    def _staying(self, burst: Burst, mentions: Iterable[Mention]) -> Iterator[Mention]:
        """Those of a burst's that go on counting for it, whatever is being taken out."""
        each = iter(mentions)
        while some := list(islice(each, AT_ONCE)):
            yield from (one for one in self.current(some) if counts(one, burst))


def current(retractions: Retractions, mentions: Sequence[Mention]) -> Sequence[Mention]:
    """Return each mention as the retractions of its tweet and its author leave it."""
    said = retractions.standing({trail for mention in mentions for trail in stands_under(mention)})
    return [as_it_stands(mention, said) for mention in mentions]


def _by_subject(places: Iterable[MentionLocation]) -> dict[Subject, list[MentionLocation]]:
    found: dict[Subject, list[MentionLocation]] = defaultdict(list)
    for place in places:
        found[place.burst.subject].append(place)
    return dict(found)
