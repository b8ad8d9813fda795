"""Erasing: what an author has said is gone from where mentions don't lead, too: edits, held events, dead letters; and
so are the author's devices.

Mentions lose their text as they are settled. Here everything bears to be done twice: what has no text is passed over.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import TypeVar

from notifier.codec import names
from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.retraction import Retraction, RetractionCause, erased_trail, tweet_trail
from notifier.domain.ids import UserId
from notifier.flow.devices.registry import PhoneBook
from notifier.metrics import Metrics
from notifier.ports.coordination import Clock
from notifier.ports.directory import Directory
from notifier.ports.retractions import Retractions, Traces

T = TypeVar("T")

AT_ONCE = 200
"""Of any size may be what an author has said: so much of it is in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasing:
    retractions: Retractions
    traces: Traces
    directory: Directory
    phonebook: PhoneBook
    clock: Clock
    metrics: Metrics

    def erase(self, words: Sequence[Retraction]) -> None:
        """Erase what settling leaves; call it after the retractions are stored and their bursts settled."""
        self._forget_late([one for one in words if one.cause is RetractionCause.EDIT])
        self._forget(_latest([one for one in words if one.cause is RetractionCause.ERASE]))

    def late(self, holds: Collection[HeldMention]) -> None:
        """Whoever holds a mention asks this behind it, as the retractor looks for holds behind the word: one of the two
        sees what the other wrote."""
        erased = self.retractions.standing({erased_trail(hold.author) for hold in holds})
        words = _latest(erased.values())
        self._blank(hold for hold in holds if hold.author in words and _about(words[hold.author], hold))

    def _forget(self, words: Mapping[UserId, Retraction]) -> None:
        """What no trail leads to is looked through once for all: who erases thousands holds up nobody's deletion."""
        now = self.clock.now()
        for word in words.values():
            self._forget_edits(word, now)
        if words:
            self._hang_up(words)
            self._blank(hold for hold in self.traces.held(words.keys()) if _about(words[hold.author], hold))
            self._empty(words.keys())

    def _hang_up(self, words: Mapping[UserId, Retraction]) -> None:
        """Of before it alone, as of words: who registers one later is there again."""
        accounts = self.directory.accounts(words.keys())
        until = {account.member: words[user].at for user, account in accounts.items()}
        self.metrics.erased.labels("device").inc(self.phonebook.forget(until))

    def _forget_late(self, edits: Collection[Retraction]) -> None:
        """Those of before the erasure that come behind it."""
        erased = self.retractions.standing({erased_trail(one.author) for one in edits}).values()
        until = {word.author: word.at for word in erased}
        self._delete([one for one in edits if one.author in until and one.at <= until[one.author]])

    def _forget_edits(self, word: Retraction, now: datetime) -> None:
        """An edit's word says what the tweet says now: that the tweet was deleted stands in its place."""
        for places in _some(self.retractions.along([*word.leads_to(now)])):
            # Of before it alone: who was erased may write again, and edit that.
            mentions = [one for one in self.retractions.read(places).values() if one.happened_at <= word.at]
            standing = self.retractions.standing({tweet_trail(word.author, one.tweet) for one in mentions})
            self._delete([one for one in standing.values() if one.cause is RetractionCause.EDIT])

    def _delete(self, edits: Collection[Retraction]) -> None:
        self.retractions.write([replace(one, cause=RetractionCause.DELETE, mentioned=(), text="") for one in edits])
        self.metrics.erased.labels("edit").inc(len(edits))

    def _blank(self, holds: Iterable[HeldMention]) -> None:
        for some in _some(iter(holds)):
            self.traces.blank(some)
            self.metrics.erased.labels("held").inc(len(some))

    def _empty(self, authors: Collection[UserId]) -> None:
        for some in _some(letter for letter in self.traces.letters() if names(letter.body, authors)):
            self.traces.empty(some)
            self.metrics.erased.labels("dead_letter").inc(len(some))


def _latest(words: Collection[Retraction]) -> Mapping[UserId, Retraction]:
    return {word.author: word for word in sorted(words, key=attrgetter("at"))}


def _about(word: Retraction, hold: HeldMention) -> bool:
    return hold.event is not None and hold.event.happened_at <= word.at


def _some(each: Iterator[T]) -> Iterator[list[T]]:
    while some := list(islice(each, AT_ONCE)):
        yield some
