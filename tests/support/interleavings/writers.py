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
from notifier.flow.inbox.cache_invalidating_ports import VersionedDirectory, VersionedFollows, VersionedUserBlocks
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.support.fakes.activity_member_sets_and_follows import MemoryFollows
from tests.support.fakes.preferences_and_user_blocks import MemoryUserBlocks
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
    CachedApiProcesses,
    ShownInbox,
    burst_of,
)
from tests.support.simulator.inbox_visits import run_sync

NOTHING: ShownInbox = ([], 0)
UNFOLLOW = Follow(subject=OF_NOVA, member=MEMBERS[KIM], visible_from=UNFOLLOWED, sequence=9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    write: Callable[[CachedApiProcesses], None]
    after: ShownInbox
    """Kim's inbox after the write."""


def mark(processes: CachedApiProcesses, process: int = 1) -> None:
    run_sync(processes.inboxes[process].mark(KIM, [FIRST], Mark.HIDDEN))


def see(processes: CachedApiProcesses, process: int = 1) -> None:
    run_sync(processes.inboxes[process].see(KIM, processes.token))


def mute(processes: CachedApiProcesses) -> None:
    current = SubjectPreference(subject=OF_NOVA, member=MEMBERS[KIM], at=ALWAYS)
    run_sync(
        processes.preferences().write(PreferencePatch(muted_until=NEVER).change_for(current, processes.clock.now()))
    )


def unfollow(processes: CachedApiProcesses) -> None:
    _follows(processes).write([UNFOLLOW])


def follow_many(processes: CachedApiProcesses) -> None:
    """Write an import: Kim's whole block follows lyra."""
    row = BlockFollows(subject=OF_LYRA, block=0, visible_from=SINCE, members=b"\xff" * BLOCK_BYTES)
    _follows(processes).write_blocks(iter([row]))


def block(processes: CachedApiProcesses) -> None:
    stored = processes.store(MemoryUserBlocks(processes.people), "user_blocks")
    user_blocks = VersionedUserBlocks(user_blocks=stored, invalidation=processes.invalidation())
    user_block = UserBlock(
        blocker=KIM,
        blocker_member=MEMBERS[KIM],
        blocked=NOVA,
        blocked_member=MEMBERS[NOVA],
        until=NEVER,
        sequence=9,
    )
    user_blocks.write([user_block])


def delete(processes: CachedApiProcesses) -> None:
    stored = processes.store(processes.directory, "directory")
    directory = VersionedDirectory(directory=stored, invalidation=processes.invalidation())
    directory.enrol([DirectoryEntry(user=KIM, member=MEMBERS[KIM], deleted=True)])


def retract(processes: CachedApiProcesses) -> None:
    processes.publish(replace(processes.bursts.by_key[FIRST], count=0))


def mention(processes: CachedApiProcesses) -> None:
    processes.publish(burst_of(SECOND, processes.clock))


def die(processes: CachedApiProcesses) -> None:
    """Die after the write, before `finish`."""
    with suppress(StoreUnavailable):
        _follows(processes, _Unanswered(processes.people)).write([UNFOLLOW])


def time_out(processes: CachedApiProcesses) -> None:
    """Give up a write that takes effect later."""
    with suppress(StoreUnavailable):
        _follows(processes, _Refusing(processes.people)).write([UNFOLLOW])
    processes.store(MemoryFollows(processes.people), "follows").write([UNFOLLOW])


class _Unanswered(MemoryFollows):
    def write(self, follows: Collection[Follow]) -> None:
        super().write(follows)
        raise StoreUnavailable("The answer is lost.")


class _Refusing(MemoryFollows):
    def write(self, follows: Collection[Follow]) -> None:
        raise StoreUnavailable("The write timed out.")


def _follows(processes: CachedApiProcesses, stored: MemoryFollows | None = None) -> VersionedFollows:
    port = processes.store(stored or MemoryFollows(processes.people), "follows")
    return VersionedFollows(follows=port, invalidation=processes.invalidation())


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
