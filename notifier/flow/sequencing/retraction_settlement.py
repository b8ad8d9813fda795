"""Settling: bursts become what their mentions are, once something is said of a tweet or of its author.

A burst is changed by its subject's head alone, as by a mention that joins it; so what is taken back and what comes
meanwhile are decided one after the other. What a mention has become is written with its burst: whoever settles the same
again finds nothing to do.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from operator import attrgetter

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.mention import Mention
from notifier.domain.bursts.retraction import (
    Change,
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
from notifier.ports.clock import Nonces
from notifier.ports.retractions import Place, Retractions

AT_ONCE = 200
"""Mentions; a head's outbox holds those that one swap changes."""
JOINS_WITHIN = timedelta(days=2)
"""Before a burst opened, or after it, the mentions in it were accepted: a window lasts some hours, and a record waits
in the log for a day at most."""

Then = Callable[[Collection[BurstKey]], object]
"""Is given the bursts that are settled, some at a time: an author may have written for years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    retractions: Retractions
    bursts: Bursts
    publisher: Publisher
    nonces: Nonces

    def standing(self, mentions: Sequence[Mention]) -> Sequence[Mention]:
        """Each as it stands by what was said of it."""
        return standing(self.retractions, mentions)

    def about(self, mentions: Sequence[Mention]) -> None:
        """Settles the bursts of those that stand as something else than they say."""
        pairs = zip(mentions, self.standing(mentions), strict=True)
        self({tweet_trail(mention.author, mention.tweet) for mention, after in pairs if after != mention})

    def __call__(self, trails: Iterable[Trail], most: int | None = None, then: Then = len) -> None:
        """Every burst that the trails lead to is settled when it returns, or those of so many mentions. Raises what
        keeps some from it, as a head that can't be read, once all the others are settled."""
        found = islice(self.retractions.along(list(dict.fromkeys(trails))), most)
        wrong: Exception | None = None
        while some := list(islice(found, AT_ONCE)):
            wrong = self._settle(_by_subject(some)) or wrong
            then({place.burst for place in some})
        if wrong:
            raise wrong

    def _settle(self, waiting: Mapping[Subject, Sequence[Place]]) -> Exception | None:
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

    def _settle_together(self, waiting: Mapping[Subject, Sequence[Place]]) -> None:
        while waiting:
            heads = self.publisher.finish(waiting)
            decided = {subject: self._decided(head, waiting[subject]) for subject, head in heads.items()}
            news = [head for subject, head in decided.items() if head is not heads[subject]]
            won, _ = self.publisher(news)
            settled = won | (set(heads) - {head.subject for head in news})
            waiting = {subject: rest for subject, rest in waiting.items() if subject not in settled}

    def _decided(self, head: Head, places: Sequence[Place]) -> Head:
        """The same head where nothing is to be changed. Mentions and bursts are read behind it: whoever changes them
        from here on has changed the head, too, and ours isn't swapped."""
        changes = self._changes(places)
        bursts = self.bursts.read(changes)
        left = [self._amended(burst, changes[key], head.version + 1) for key, burst in bursts.items()]
        if not left:
            return head
        changed = [Sequenced(mention=one.after, seq=key.seq) for key in bursts for one in changes[key]]
        return taken_back(head, left, changed, nonce=self.nonces.new())

    def _changes(self, places: Sequence[Place]) -> Mapping[BurstKey, list[Change]]:
        stored = self.retractions.read(places)
        found = defaultdict[BurstKey, list[Change]](list)
        for (place, before), after in zip(stored.items(), self.standing([*stored.values()]), strict=True):
            if after != before:
                found[place.burst].append(Change(before=before, after=after))
        return found

    def _amended(self, burst: Burst, changes: Sequence[Change], version: int) -> Burst:
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
            yield from (one for one in self.standing(some) if counts(one, burst))


def standing(retractions: Retractions, mentions: Sequence[Mention]) -> Sequence[Mention]:
    """Each as it stands by what was said of its tweet and its author."""
    said = retractions.standing({trail for mention in mentions for trail in stands_under(mention)})
    return [as_it_stands(mention, said) for mention in mentions]


def _by_subject(places: Iterable[Place]) -> dict[Subject, list[Place]]:
    found: dict[Subject, list[Place]] = defaultdict(list)
    for place in places:
        found[place.burst.subject].append(place)
    return dict(found)
