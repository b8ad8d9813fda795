"""Rumours: what was said and isn't known to have come, so that rows and sets may say it already, or not yet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain, combinations, product

from notifier import topics
from notifier.codec import unpack
from notifier.codec.push import unpack_device_record
from notifier.domain.audience.activity import OF_THE_ACTIVE
from notifier.domain.audience.bitmap import holds, shard_of
from notifier.domain.ids import Member
from notifier.domain.upstream.graph_changes import GraphRecord
from notifier.ports.directory import Directory
from notifier.ports.event_log import Record
from tests.support.oracle import Person, Phoned, Saying, Told
from tests.support.simulator.durable_state import Ground
from tests.support.simulator.preference_changes import heard
from tests.support.simulator.scenarios.devices import rung

UNSURE = 6
"""Sayings of one person in flight whose every choice is looked at; of more, those of each kind come in order."""
HALFWAY = (timedelta(days=20), timedelta(days=5))
"""Idle for so long is who looked, as long as the roll-up has put him into some of the sets of the active."""


@dataclass(frozen=True, slots=True)
class Heard:
    saying: Saying
    partition: str
    offset: int


@dataclass(slots=True)
class Rumours:
    ground: Ground
    heard: dict[str, list[Heard]] = field(default_factory=dict)
    """By person, in the order of the log."""
    looks: dict[str, tuple[timedelta, int]] = field(default_factory=dict)
    """How long everybody who looked had been away, and how often Redis had been emptied by then; until it is known."""

    def hear(self, partition: str, offset: int, record: Record) -> Sequence[str]:
        """Whom it is about."""
        sayings = _said(record, self.ground.directory)
        for saying in sayings:
            self.heard.setdefault(saying.person, []).append(Heard(saying, partition, offset))
        return [saying.person for saying in sayings]

    def looked(self, person: Person) -> None:
        self.looks[person.name] = person.idle, self.ground.wipes

    def told(self, person: Person) -> Person:
        """By all that was said."""
        return person.after([one.saying for one in self.heard.get(person.name, ())])

    def possible(self, person: Person) -> Sequence[Person]:
        known = self.heard.get(person.name, ())
        if not known and person.name not in self.looks:
            return [person]
        unsure = [one for one in known if not self.ground.log.indexed(one.partition, one.offset)]
        sure = [one.saying for one in known if one not in unsure]
        found = [person.after([*sure, *(one.saying for one in some)]) for some in _choices(unsure)]
        idle = self._idle(person)
        return found if idle == [person.idle] else [replace(one, idle=lasting) for one in found for lasting in idle]

    def phoned(self) -> Sequence[Phoned]:
        """All that was said of devices, to anybody."""
        return [one.saying for known in self.heard.values() for one in known if isinstance(one.saying, Phoned)]

    def leaving(self, owner: str) -> set[str]:
        """Who may or may not have left."""
        return {
            name
            for name, known in self.heard.items()
            for one in known
            if isinstance(one.saying, Told) and one.saying.owner == owner and one.saying.left
            if not self.ground.log.indexed(one.partition, one.offset)
        }

    def idle_lookers(self, base: Mapping[str, Person]) -> Iterator[str]:
        """Who should be active by now: whose look no emptied Redis has swallowed."""
        for name, (_, wipes) in list(self.looks.items()):
            if len(self._idle(base[name])) > 1 and wipes == self.ground.wipes:
                yield name

    def _idle(self, person: Person) -> Sequence[timedelta]:
        if person.name not in self.looks:
            return [person.idle]
        member = Member(person.member)
        shard = shard_of(member)
        read = [self.ground.sets.read(kind, None, [shard]).get(shard) for kind in OF_THE_ACTIVE]
        if all(bits is not None and holds(bits, member) for bits in read):
            del self.looks[person.name]
            return [person.idle]
        before = self.looks[person.name][0]
        return [person.idle, before, *(idle for idle in HALFWAY if idle < before)]


def _said(record: Record, directory: Directory) -> Sequence[Saying]:
    if record.stream == topics.DEVICES:
        return rung(unpack_device_record(record.value), directory)
    return heard(unpack(GraphRecord, record.value), directory)


def _choices(unsure: Sequence[Heard]) -> Iterator[Sequence[Heard]]:
    if len(unsure) > UNSURE:
        yield from _begun(unsure)
    first, rest = unsure[: max(0, len(unsure) - UNSURE)], unsure[max(0, len(unsure) - UNSURE) :]
    some = chain.from_iterable(combinations(rest, n) for n in range(len(rest) + 1))
    yield from ([*first, *chosen] for chosen in some)


def _begun(unsure: Sequence[Heard]) -> Iterator[Sequence[Heard]]:
    """So many of each kind: the indexer takes the records of a batch kind by kind."""
    kinds = {type(one.saying) for one in unsure}
    of_kind = [[n for n, one in enumerate(unsure) if type(one.saying) is kind] for kind in kinds]
    for counts in product(*(range(len(numbers) + 1) for numbers in of_kind)):
        taken = sorted(chain.from_iterable(numbers[:n] for numbers, n in zip(of_kind, counts, strict=True)))
        yield [unsure[n] for n in taken]
