"""The pull index in Redis, as its readers know it: one round trip for all that a person follows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isinf
from operator import itemgetter

from notifier.adapters.redis.client import AsyncClient
from notifier.adapters.redis.layout import AS_OF, SINCE, Listed, by_part, fresh, key, moment, proven_since, read_list
from notifier.domain.subject import BurstKey, Subject
from notifier.ports.clock import Clock
from notifier.ports.pull import Pulled, SubjectList, SubjectLists
from notifier.ports.timeline import Place

MOST = 512
"""Places in one answer: dozens of pages. Who follows the busiest hundreds would otherwise get tens of thousands."""

Look = Mapping[Subject, Listed | float]
"""A subject's list, or without one the moment since when its part is complete."""


class RedisPullReader:
    def __init__(self, client: AsyncClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists | None:
        parts, answers = await self._read(subjects)
        if not answers or not all(fresh(as_of, self._clock.now()) for as_of, *_ in answers):
            return None
        found = {s: x for part, answer in zip(parts.values(), answers, strict=True) for s, x in _look(part, answer)}
        lists = {subject: _list(subject, one) for subject, one in found.items()}
        return SubjectLists(
            lists={subject: one for subject, one in lists.items() if one is not None},
            as_of=moment(min(float(as_of) for as_of, *_ in answers)),
        )

    async def _read(
        self, subjects: Collection[Subject]
    ) -> tuple[Mapping[int, Sequence[Subject]], Sequence[Sequence[bytes]]]:
        parts = by_part(subjects)
        with self._client.answered():
            async with self._client.pipeline(transaction=False) as pipe:
                for part, found in parts.items():
                    pipe.hmget(key(part), [AS_OF, SINCE, *map(str, found)])
                return parts, await pipe.execute()

    async def news(self, subjects: Collection[Subject]) -> Pulled:
        parts, answers = await self._read(subjects)
        now = self._clock.now()
        if not all(fresh(as_of, now) for as_of, *_ in answers):
            return Pulled(places=(), complete_since=None)
        pulled = _proven(
            {s: x for part, answer in zip(parts.values(), answers, strict=True) for s, x in _look(part, answer)}
        )
        compared = min((float(as_of) for as_of, *_ in answers), default=None)
        return pulled if compared is None else replace(pulled, as_of=moment(compared))


def _look(subjects: Sequence[Subject], answer: Sequence[bytes | None]) -> Iterator[tuple[Subject, Listed | float]]:
    _, proof, *lists = answer
    for subject, packed in zip(subjects, lists, strict=True):
        yield subject, read_list(packed) if packed else proven_since(proof)


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
