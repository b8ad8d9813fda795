"""Erasure: removes devices and remaining text of erased authors."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import TypeVar

from notifier.codec import contains_user
from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.retraction import Retraction, RetractionCause, erasure_key, tweet_key
from notifier.domain.ids import UserId
from notifier.flow.devices.device_registry import DeviceRegistry
from notifier.metrics import Metrics
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.moderation_and_retractions import ErasureTargets, Retractions
from notifier.ports.user_directory_and_account_flags import Directory

T = TypeVar("T")

ITEMS_PER_BATCH = 200
"""Mentions, held mentions or dead letters in memory at a time. An author may have any number of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """Removes devices, and erases the text in edits, held mentions and dead letters. Idempotent.

    Retraction settlement erases the text in mentions and bursts.
    """

    retractions: Retractions
    erasure_targets: ErasureTargets
    directory: Directory
    device_registry: DeviceRegistry
    clock: Clock
    metrics: Metrics

    def erase(self, retractions: Sequence[Retraction]) -> None:
        """Erase the text and devices that these retractions concern. Call this after the retractions are settled."""
        self._erase_late_edits([retraction for retraction in retractions if retraction.cause is RetractionCause.EDIT])
        self._erase_authors(
            _latest_by_author([retraction for retraction in retractions if retraction.cause is RetractionCause.ERASE])
        )

    def erase_held(self, held_mentions: Collection[HeldMention]) -> None:
        """Erase the text of held mentions whose author is already erased. Call this after storing the held mentions.

        The retractor stores an erasure before it looks for held mentions. So either the retractor finds the held
        mention, or this call finds the erasure.
        """
        erasures = self.retractions.read_current({erasure_key(held.author) for held in held_mentions})
        erasure_by_author = _latest_by_author(erasures.values())
        self._erase_held_texts(
            held
            for held in held_mentions
            if held.author in erasure_by_author and _is_covered(held, erasure_by_author[held.author])
        )

    def _erase_authors(self, erasure_by_author: Mapping[UserId, Retraction]) -> None:
        """Remove the authors' devices, and erase the text of their edits, held mentions and dead letters.

        Held mentions and dead letters are scanned once for all authors. With one scan per author, a mass erasure would
        delay the deletions that follow it in the stream.
        """
        now = self.clock.now()
        for erasure in erasure_by_author.values():
            self._erase_edits(erasure, now)
        if erasure_by_author:
            self._remove_devices(erasure_by_author)
            self._erase_held_texts(
                held
                for held in self.erasure_targets.held_mentions(erasure_by_author.keys())
                if _is_covered(held, erasure_by_author[held.author])
            )
            self._erase_letter_bodies(erasure_by_author.keys())

    def _remove_devices(self, erasure_by_author: Mapping[UserId, Retraction]) -> None:
        """Remove devices registered up to the erasure. Devices registered later stay: the author has come back."""
        accounts = self.directory.accounts(erasure_by_author.keys())
        erased_at = {account.member: erasure_by_author[user].at for user, account in accounts.items()}
        self.metrics.erased.labels("device").inc(self.device_registry.remove_registered(erased_at))

    def _erase_late_edits(self, edits: Collection[Retraction]) -> None:
        """Erase the text of edits that were made before the erasure of their author, but arrive after it."""
        erasures = self.retractions.read_current({erasure_key(edit.author) for edit in edits}).values()
        erased_at = {erasure.author: erasure.at for erasure in erasures}
        self._replace_by_deletions(
            [edit for edit in edits if edit.author in erased_at and edit.at <= erased_at[edit.author]]
        )

    def _erase_edits(self, erasure: Retraction, now: datetime) -> None:
        """Replace the edits of the author's tweets by deletions, because an edit contains the text."""
        for locations in _batches(self.retractions.mention_locations([*erasure.mention_lookup_keys(now)])):
            # Only tweets from before the erasure: an erased author may write again, and edit the new tweets.
            mentions = [
                mention
                for mention in self.retractions.read_mentions(locations).values()
                if mention.happened_at <= erasure.at
            ]
            retractions = self.retractions.read_current(
                {tweet_key(erasure.author, mention.tweet) for mention in mentions}
            )
            self._replace_by_deletions(
                [retraction for retraction in retractions.values() if retraction.cause is RetractionCause.EDIT]
            )

    def _replace_by_deletions(self, edits: Collection[Retraction]) -> None:
        self.retractions.write([replace(edit, cause=RetractionCause.DELETE, mentioned=(), text="") for edit in edits])
        self.metrics.erased.labels("edit").inc(len(edits))

    def _erase_held_texts(self, held_mentions: Iterable[HeldMention]) -> None:
        for batch in _batches(iter(held_mentions)):
            self.erasure_targets.erase_held_texts(batch)
            self.metrics.erased.labels("held").inc(len(batch))

    def _erase_letter_bodies(self, authors: Collection[UserId]) -> None:
        for batch in _batches(
            letter for letter in self.erasure_targets.dead_letters() if contains_user(letter.body, authors)
        ):
            self.erasure_targets.erase_letter_bodies(batch)
            self.metrics.erased.labels("dead_letter").inc(len(batch))


def _latest_by_author(retractions: Collection[Retraction]) -> Mapping[UserId, Retraction]:
    return {retraction.author: retraction for retraction in sorted(retractions, key=attrgetter("at"))}


def _is_covered(held: HeldMention, erasure: Retraction) -> bool:
    """Return whether the held mention has text from before the erasure."""
    return held.event is not None and held.event.happened_at <= erasure.at


def _batches(items: Iterator[T]) -> Iterator[list[T]]:
    while batch := list(islice(items, ITEMS_PER_BATCH)):
        yield batch
