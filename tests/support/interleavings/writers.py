"""Writers of what inboxes show, each with the product's own sequence of port calls."""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace

from notifier.domain.audience.bitmap import BLOCK_BYTES
from notifier.domain.audience.follows import UNFOLLOWED, BlockFollows, Follow
from notifier.domain.errors import StoreUnavailable
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, PreferencePatch, SubjectPreference
from notifier.domain.users.user_blocks import UserBlock
from notifier.domain.users.visibility import Mark
from notifier.flow.inbox.versioned_ports import VersionedDirectory, VersionedFollows, VersionedUserBlocks
from notifier.ports.user_directory import DirectoryEntry
from tests.support.fakes.audience import MemoryFollows
from tests.support.fakes.user_preferences import MemoryUserBlocks
from tests.support.interleavings.cached_api_processes import (
    FIRST,
    KIM,
    MEMBERS,
    NOVA,
    OF_LYRA,
    OF_NOVA,
    OTHERS,
    SECOND,
    SINCE,
    ShownInbox,
    World,
    burst_of,
)
from tests.support.simulator.inbox_visits import run_sync

NOTHING: ShownInbox = ([], 0)
UNFOLLOW = Follow(subject=OF_NOVA, member=MEMBERS[KIM], visible_from=UNFOLLOWED, sequence=9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    write: Callable[[World], None]
    after: ShownInbox
    """Kim's inbox after the write."""


def mark(world: World, process: int = 1) -> None:
    run_sync(world.inboxes[process].mark(KIM, [FIRST], Mark.HIDDEN))


def see(world: World, process: int = 1) -> None:
    run_sync(world.inboxes[process].see(KIM, world.token))


def mute(world: World) -> None:
    current = SubjectPreference(subject=OF_NOVA, member=MEMBERS[KIM], at=ALWAYS)
    run_sync(world.preferences().write(PreferencePatch(muted_until=NEVER).change_for(current, world.clock.now())))


def unfollow(world: World) -> None:
    _follows(world).write([UNFOLLOW])


def follow_many(world: World) -> None:
    """Write an import: Kim's whole block follows lyra."""
    row = BlockFollows(subject=OF_LYRA, block=0, visible_from=SINCE, members=b"\xff" * BLOCK_BYTES)
    _follows(world).write_blocks(iter([row]))


def block(world: World) -> None:
    stored = world.store(MemoryUserBlocks(world.people), "user_blocks")
    user_blocks = VersionedUserBlocks(user_blocks=stored, invalidation=world.invalidation())
    user_block = UserBlock(
        blocker=KIM,
        blocker_member=MEMBERS[KIM],
        blocked=NOVA,
        blocked_member=MEMBERS[NOVA],
        until=NEVER,
        sequence=9,
    )
    user_blocks.write([user_block])


def delete(world: World) -> None:
    stored = world.store(world.directory, "directory")
    directory = VersionedDirectory(directory=stored, invalidation=world.invalidation())
    directory.enrol([DirectoryEntry(user=KIM, member=MEMBERS[KIM], deleted=True)])


def retract(world: World) -> None:
    world.publish(replace(world.bursts.by_key[FIRST], count=0))


def mention(world: World) -> None:
    world.publish(burst_of(SECOND, world.clock))


def die(world: World) -> None:
    """Die after the write, before `finish`."""
    with suppress(StoreUnavailable):
        _follows(world, _Unanswered(world.people)).write([UNFOLLOW])


def time_out(world: World) -> None:
    """Give up a write that takes effect later."""
    with suppress(StoreUnavailable):
        _follows(world, _Refusing(world.people)).write([UNFOLLOW])
    world.store(MemoryFollows(world.people), "follows").write([UNFOLLOW])


class _Unanswered(MemoryFollows):
    def write(self, follows: Collection[Follow]) -> None:
        super().write(follows)
        raise StoreUnavailable("The answer is lost.")


class _Refusing(MemoryFollows):
    def write(self, follows: Collection[Follow]) -> None:
        raise StoreUnavailable("The write timed out.")


def _follows(world: World, stored: MemoryFollows | None = None) -> VersionedFollows:
    port = world.store(stored or MemoryFollows(world.people), "follows")
    return VersionedFollows(follows=port, invalidation=world.invalidation())


OF_FACTS = {
    "mark": Writer(write=mark, after=NOTHING),
    "see": Writer(write=see, after=([str(FIRST)], 0)),
    "mute": Writer(write=mute, after=NOTHING),
    "unfollow": Writer(write=unfollow, after=NOTHING),
    "block": Writer(write=block, after=NOTHING),
    "follow_many": Writer(write=follow_many, after=([str(FIRST), *map(str, reversed(OTHERS))], 4)),
    "delete": Writer(write=delete, after=None),
    "die": Writer(write=die, after=NOTHING),
    "time_out": Writer(write=time_out, after=NOTHING),
}
"""Writers of Kim's facts."""
OF_BURSTS = {
    "retract": Writer(write=retract, after=NOTHING),
    "mention": Writer(write=mention, after=([str(SECOND), str(FIRST)], 2)),
}
