"""Tracks changes in flight, which rows and member sets may or may not include yet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain, combinations, product

from notifier import topics
from notifier.codec import unpack
from notifier.codec.devices_send_log_suppressions import unpack_device_record
from notifier.domain.audience.activity import ACTIVE_SET_KINDS
from notifier.domain.audience.bitmap import contains, shard_of
from notifier.domain.ids import Member
from notifier.domain.upstream.graph_stream_records import GraphRecord
from notifier.ports.event_log_and_dead_letters import Record
from notifier.ports.user_directory_and_account_flags import Directory
from tests.support.oracle import DeviceUpdate, FollowUpdate, Person, Update
from tests.support.simulator.durable_state import DurableState
from tests.support.simulator.scenarios.devices import device_updates
from tests.support.simulator.user_changes import graph_updates

UNSURE = 6
"""Maximum number of changes in flight of a user for which every subset is tried; beyond it, those of one kind take
effect in order."""
HALFWAY = (timedelta(days=20), timedelta(days=5))
"""Possible idle times while the roll-up has added a user to only some of the active sets."""


@dataclass(frozen=True, slots=True)
class LoggedUpdate:
    update: Update
    partition: str
    offset: int


@dataclass(slots=True)
class InFlightChanges:
    state: DurableState
    logged: dict[str, list[LoggedUpdate]] = field(default_factory=dict)
    """Changes by user, in the order of the log."""
    visits: dict[str, tuple[timedelta, int]] = field(default_factory=dict)
    """Idle time before the user opened the inbox, and the number of Redis wipes by then; kept until the sets are
    complete."""

    def note(self, partition: str, offset: int, record: Record) -> Sequence[str]:
        """Note the record and return the users it is about."""
        updates = _updates_in(record, self.state.directory)
        for update in updates:
            self.logged.setdefault(update.person, []).append(LoggedUpdate(update, partition, offset))
        return [update.person for update in updates]

    def note_visit(self, person: Person) -> None:
        self.visits[person.name] = person.idle, self.state.wipes

    def current(self, person: Person) -> Person:
        """Return the user after all changes."""
        return person.after([change.update for change in self.logged.get(person.name, ())])

    def possible_states(self, person: Person) -> Sequence[Person]:
        known = self.logged.get(person.name, ())
        if not known and person.name not in self.visits:
            return [person]
        unsure = [change for change in known if not self.state.log.indexed(change.partition, change.offset)]
        sure = [change.update for change in known if change not in unsure]
        states = [person.after([*sure, *(change.update for change in chosen)]) for chosen in _choices(unsure)]
        idle = self._idle(person)
        return (
            states
            if idle == [person.idle]
            else [replace(change, idle=idle_time) for change in states for idle_time in idle]
        )

    def device_updates(self) -> Sequence[DeviceUpdate]:
        """Return all device updates."""
        return [
            change.update
            for changes in self.logged.values()
            for change in changes
            if isinstance(change.update, DeviceUpdate)
        ]

    def unfollowing(self, owner: str) -> set[str]:
        """Return the users whose unfollow is in flight."""
        return {
            name
            for name, changes in self.logged.items()
            for change in changes
            if isinstance(change.update, FollowUpdate) and change.update.owner == owner and change.update.is_unfollow
            if not self.state.log.indexed(change.partition, change.offset)
        }

    def missing_from_active_sets(self, base: Mapping[str, Person]) -> Iterator[str]:
        """Iterate over users who should be in the active sets by now, because no wipe lost their visit."""
        for name, (_, wipes) in list(self.visits.items()):
            if len(self._idle(base[name])) > 1 and wipes == self.state.wipes:
                yield name

    def _idle(self, person: Person) -> Sequence[timedelta]:
        if person.name not in self.visits:
            return [person.idle]
        member = Member(person.member)
        shard = shard_of(member)
        read = [self.state.sets.read(kind, None, [shard]).get(shard) for kind in ACTIVE_SET_KINDS]
        if all(bits is not None and contains(bits, member) for bits in read):
            del self.visits[person.name]
            return [person.idle]
        before = self.visits[person.name][0]
        return [person.idle, before, *(idle for idle in HALFWAY if idle < before)]


def _updates_in(record: Record, directory: Directory) -> Sequence[Update]:
    if record.stream == topics.DEVICES:
        return device_updates(unpack_device_record(record.value), directory)
    return graph_updates(unpack(GraphRecord, record.value), directory)


def _choices(unsure: Sequence[LoggedUpdate]) -> Iterator[Sequence[LoggedUpdate]]:
    if len(unsure) > UNSURE:
        yield from _prefixes(unsure)
    first, last = unsure[: max(0, len(unsure) - UNSURE)], unsure[max(0, len(unsure) - UNSURE) :]
    subsets = chain.from_iterable(combinations(last, n) for n in range(len(last) + 1))
    yield from ([*first, *chosen] for chosen in subsets)


def _prefixes(unsure: Sequence[LoggedUpdate]) -> Iterator[Sequence[LoggedUpdate]]:
    """Combine prefixes of each kind, because the indexer processes a batch kind by kind."""
    kinds = {type(change.update) for change in unsure}
    of_kind = [[n for n, change in enumerate(unsure) if type(change.update) is kind] for kind in kinds]
    for counts in product(*(range(len(numbers) + 1) for numbers in of_kind)):
        taken = sorted(chain.from_iterable(numbers[:n] for numbers, n in zip(of_kind, counts, strict=True)))
        yield [unsure[n] for n in taken]
