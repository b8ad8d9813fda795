"""Erasure: removes an author's text beyond mentions, and the author's devices.

Text beyond mentions is in edits, held events and dead letters. Mentions lose their text when they are settled. Every
step can be repeated: entries without text are skipped.
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
"""Entries in memory at a time: an author may have written any amount of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasing:
    """Erases what retraction settlement leaves. Idempotent."""

    retractions: Retractions
    traces: Traces
    directory: Directory
    phonebook: PhoneBook
    clock: Clock
    metrics: Metrics

    def erase(self, words: Sequence[Retraction]) -> None:
        """Erase what settlement leaves. Call this after the retractions are stored and their bursts settled."""
        self._forget_late([retraction for retraction in words if retraction.cause is RetractionCause.EDIT])
        self._forget(_latest([retraction for retraction in words if retraction.cause is RetractionCause.ERASE]))

    def late(self, holds: Collection[HeldMention]) -> None:
        """Erase held mentions of authors that were erased before. Call this after storing the held mentions.

        The retractor looks for held mentions after storing the erasure. So one of the two sees the other's write.
        """
        erased = self.retractions.standing({erased_trail(hold.author) for hold in holds})
        retractions = _latest(erased.values())
        self._blank(hold for hold in holds if hold.author in retractions and _about(retractions[hold.author], hold))

    def _forget(self, words: Mapping[UserId, Retraction]) -> None:
        """Erase for all authors together what no retraction key finds, so that mass erasure delays no deletion."""
        now = self.clock.now()
        for retraction in words.values():
            self._forget_edits(retraction, now)
        if words:
            self._hang_up(words)
            self._blank(hold for hold in self.traces.held(words.keys()) if _about(words[hold.author], hold))
            self._empty(words.keys())

    def _hang_up(self, words: Mapping[UserId, Retraction]) -> None:
        """Drop devices registered before the erasure. A device registered later stays: the author is back."""
        accounts = self.directory.accounts(words.keys())
        until = {account.member: words[user].at for user, account in accounts.items()}
        self.metrics.erased.labels("device").inc(self.phonebook.forget(until))

    def _forget_late(self, edits: Collection[Retraction]) -> None:
        """Erase edits from before the erasure that arrive after it."""
        erased = self.retractions.standing({erased_trail(edit.author) for edit in edits}).values()
        until = {retraction.author: retraction.at for retraction in erased}
        self._delete([edit for edit in edits if edit.author in until and edit.at <= until[edit.author]])

    def _forget_edits(self, word: Retraction, now: datetime) -> None:
        """Replace each edit, which contains the tweet's text, by a deletion of the tweet."""
        for places in _some(self.retractions.along([*word.leads_to(now)])):
            # Only what is older than the erasure: an erased author may write again, and edit the new tweets.
            mentions = [mention for mention in self.retractions.read(places).values() if mention.happened_at <= word.at]
            current = self.retractions.standing({tweet_trail(word.author, mention.tweet) for mention in mentions})
            self._delete([mention for mention in current.values() if mention.cause is RetractionCause.EDIT])

    def _delete(self, edits: Collection[Retraction]) -> None:
        self.retractions.write([replace(edit, cause=RetractionCause.DELETE, mentioned=(), text="") for edit in edits])
        self.metrics.erased.labels("edit").inc(len(edits))

    def _blank(self, holds: Iterable[HeldMention]) -> None:
        for batch in _some(iter(holds)):
            self.traces.blank(batch)
            self.metrics.erased.labels("held").inc(len(batch))

    def _empty(self, authors: Collection[UserId]) -> None:
        for batch in _some(letter for letter in self.traces.letters() if names(letter.body, authors)):
            self.traces.empty(batch)
            self.metrics.erased.labels("dead_letter").inc(len(batch))


def _latest(words: Collection[Retraction]) -> Mapping[UserId, Retraction]:
    return {retraction.author: retraction for retraction in sorted(words, key=attrgetter("at"))}


def _about(word: Retraction, hold: HeldMention) -> bool:
    return hold.event is not None and hold.event.happened_at <= word.at


def _some(each: Iterator[T]) -> Iterator[list[T]]:
    while batch := list(islice(each, AT_ONCE)):
        yield batch
