"""The pull index in Redis, as its readers know it: one round trip for all that a person follows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isinf
from operator import itemgetter

from notifier.adapters.redis.calls import Command, ask_async, discard
from notifier.adapters.redis.connect import AsyncClient
from notifier.adapters.redis.keys import unwrap_fields
from notifier.adapters.redis.pull_layout import (
    AS_OF,
    SINCE,
    Listed,
    by_part,
    fresh,
    key,
    moment,
    proven_since,
    read_list,
)
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.clock import Clock
from notifier.ports.inbox import Place
from notifier.ports.pull_index import Pulled, SubjectList, SubjectLists

MOST = 512
"""Places in one answer: dozens of pages. Who follows the busiest hundreds would otherwise get tens of thousands."""

Fields = Mapping[str, bytes | None]
Look = Mapping[Subject, Listed | float]
"""A subject's list, or without one the moment since when its part is complete."""


class RedisPullReader:
    def __init__(self, client: AsyncClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists | None:
        parts, read = await self._read(subjects)
        if not read or not all(fresh(part[AS_OF], self._clock.now()) for part in read.values()):
            return None
        found = {subject: _list(subject, _look(read[part], subject)) for part in parts for subject in parts[part]}
        return SubjectLists(
            lists={subject: one for subject, one in found.items() if one is not None},
            as_of=moment(min(float(part[AS_OF] or 0) for part in read.values())),
        )

    async def _read(
        self, subjects: Collection[Subject]
    ) -> tuple[Mapping[int, Sequence[Subject]], Mapping[int, Fields] | None]:
        """The fields of each part; None where garbage was found in any."""
        parts = by_part(subjects)
        fields = {part: [AS_OF, SINCE, *map(str, found)] for part, found in parts.items()}
        answers = await ask_async(self._client, [Command("hmget", key(part), (of,)) for part, of in fields.items()])
        held = {part: dict(zip(fields[part], answer, strict=True)) for part, answer in zip(parts, answers, strict=True)}
        read = {part: unwrap_fields(key(part), answer) for part, answer in held.items()}
        if garbled := [discard(key(part), garbage) for part, (_, garbage) in read.items() if garbage]:
            # A part with garbage proves nothing; once it is gone, the next rebuild fills it again.
            await ask_async(self._client, garbled)
            return parts, None
        return parts, {part: held for part, (held, _) in read.items()}

    async def news(self, subjects: Collection[Subject]) -> Pulled:
        parts, read = await self._read(subjects)
        if read is None:
            return Pulled(places=(), complete_since=None)
        now = self._clock.now()
        if not all(fresh(part[AS_OF], now) for part in read.values()):
            return Pulled(places=(), complete_since=None)
        pulled = _proven({subject: _look(read[part], subject) for part in parts for subject in parts[part]})
        compared = min((float(part[AS_OF] or 0) for part in read.values()), default=None)
        return pulled if compared is None else replace(pulled, as_of=moment(compared))


def _look(part: Fields, subject: Subject) -> Listed | float:
    packed = part[str(subject)]
    return proven_since(part[SINCE]) if packed is None else read_list(packed)


def _list(subject: Subject, found: Listed | float) -> SubjectList | None:
    since = found.since if isinstance(found, Listed) else found
    if isinf(since):
        return None
    opened = enumerate(found.opened, start=found.first) if isinstance(found, Listed) else ()
    places = [(moment(at), BurstKey(subject, seq)) for seq, at in opened if at >= since]
    return SubjectList(complete_since=moment(since), places=places[::-1])


def _proven(look: Look) -> Pulled:
    """Complete since the newest moment that any of the subjects asks for: older places are left to the store."""
    since = max((found.since if isinstance(found, Listed) else found for found in look.values()), default=0.0)
    if isinf(since):
        return Pulled(places=(), complete_since=None)
    # By time alone: comparing the keys of thousands costs more than all the rest.
    newest = sorted(_opened(look, since), key=itemgetter(0), reverse=True)
    if len(newest) > MOST:
        since = newest[MOST][0] + 1
    places = [
        Place(moment(opened), BurstKey(subject, seq)) for opened, subject, seq in newest[:MOST] if opened >= since
    ]
    return Pulled(places=tuple(sorted(places, reverse=True)), complete_since=moment(since))


def _opened(look: Look, since: float) -> Iterator[tuple[float, Subject, int]]:
    for subject, found in look.items():
        if isinstance(found, Listed) and max(found.opened) >= since:
            for seq, opened in enumerate(found.opened, start=found.first):
                if opened >= since:
                    yield opened, subject, seq
