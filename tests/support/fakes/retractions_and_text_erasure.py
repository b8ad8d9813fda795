"""In-memory retractions; lookups scan every mention."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from notifier.domain.bursts.events_and_mentions import Mention
from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.retraction import LookupKey, Retraction, RetractionKey, mention_lookup_keys
from notifier.domain.ids import BurstKey, UserId
from notifier.ports.event_log_and_dead_letters import DeadLetter
from notifier.ports.moderation_and_retractions import MentionLocation
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts
from tests.support.fakes.dead_letters import MemoryDeadLetters
from tests.support.fakes.moderation import MemoryHeldMentions


class MemoryRetractions:
    def __init__(self, bursts: MemoryBursts) -> None:
        self._bursts = bursts
        self._current: dict[RetractionKey, Retraction] = {}

    def write(self, retractions: Collection[Retraction]) -> None:
        for retraction in retractions:
            current = self._current.get(retraction.key)
            if current is None or current.rank < retraction.rank:
                self._current[retraction.key] = retraction

    def read_current(self, keys: Collection[RetractionKey]) -> Mapping[RetractionKey, Retraction]:
        return {key: self._current[key] for key in keys if key in self._current}

    def mention_locations(
        self, keys: Collection[LookupKey], burst: BurstKey | None = None
    ) -> Iterator[MentionLocation]:
        locations = defaultdict[LookupKey, list[MentionLocation]](list)
        for (key, event), mention in sorted(self._bursts.mentions.items()):
            for lookup_key in mention_lookup_keys(mention) if burst in (None, key) else ():
                locations[lookup_key].append(MentionLocation(key, event))
        for lookup_key in keys:
            yield from locations.get(lookup_key, ())

    def read_mentions(self, locations: Collection[MentionLocation]) -> Mapping[MentionLocation, Mention]:
        mentions = self._bursts.mentions
        return {p: mentions[p.burst, p.event] for p in locations if (p.burst, p.event) in mentions}

    def mentions_of_burst(self, burst: BurstKey) -> Iterator[Mention]:
        yield from (mention for (key, _), mention in [*self._bursts.mentions.items()] if key == burst)


# Other places where an author's text may remain.


class MemoryErasureTargets:
    def __init__(self, holds: MemoryHeldMentions, dead_letters: MemoryDeadLetters) -> None:
        self._holds = holds
        self._dead_letters = dead_letters

    def held_mentions(self, authors: Collection[UserId]) -> Iterator[HeldMention]:
        stored = [*self._holds.by_event.values()]
        return (hold for hold in stored if hold.author in authors and hold.event and hold.event.text)

    def erase_held_texts(self, held_mentions: Collection[HeldMention]) -> None:
        for hold in held_mentions:
            stored = self._holds.by_event[hold.id]
            self._holds.by_event[hold.id] = stored.without_text

    def dead_letters(self) -> Iterator[DeadLetter]:
        return (dead_letter for dead_letter in [*self._dead_letters.by_id.values()] if dead_letter.body)

    def erase_letter_bodies(self, letters: Collection[DeadLetter]) -> None:
        for letter in letters:
            self._dead_letters.by_id[letter.id] = replace(self._dead_letters.by_id[letter.id], body=b"")
