"""A directory whose numbers a process remembers, both ways: they are for ever, so what it remembers is never wrong."""

from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

from notifier.domain.audience.id_ranges import IdRange
from notifier.domain.ids import Member, UserId
from notifier.ports.directory import Directory, DirectoryEntry

REMEMBERED = 131_072
"""Of each way, those who were asked for last, and up to as many before them: some 60 MB at the most."""

K = TypeVar("K")
V = TypeVar("V")


class RememberedDirectory:
    """What is known of an account, and who has no number yet, may change, and is asked for each time."""

    def __init__(self, directory: Directory, remembered: int = REMEMBERED) -> None:
        self._directory = directory
        self._numbers = TwoGenerationCache(directory.number, remembered)
        self._users = TwoGenerationCache(directory.users, remembered)

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, DirectoryEntry]:
        return self._directory.accounts(users)

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        return self._users.of(members)

    def number(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        return self._numbers.of(users)

    def lease(self, count: int) -> Member:
        return self._directory.lease(count)

    def end(self) -> Member:
        return self._directory.end()

    def enrol(self, accounts: Collection[DirectoryEntry]) -> None:
        self._directory.enrol(accounts)

    def enrol_range(self, ids: IdRange) -> None:
        self._directory.enrol_range(ids)

    def range_of(self, user: UserId) -> IdRange | None:
        return self._directory.range_of(user)


class TwoGenerationCache(Generic[K, V]):
    """Of answers, in two halves: when the new one is full it becomes the old one, and what nobody asked for since the
    last time goes. For several threads: one that comes between asks again for what it doesn't find."""

    def __init__(self, ask: Callable[[Collection[K]], Mapping[K, V]], size: int) -> None:
        self._ask = ask
        self._size = size
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def of(self, keys: Collection[K]) -> Mapping[K, V]:
        new, old = self._new, self._old
        found = {key: new[key] for key in keys if key in new}
        if len(found) == len(keys):
            return found
        again = {key: old[key] for key in keys if key in old}
        rest = [key for key in keys if key not in found and key not in again]
        asked = self._ask(rest) if rest else {}
        self._keep({**again, **asked})
        return {**found, **again, **asked}

    def _keep(self, answers: Mapping[K, V]) -> None:
        if len(self._new) + len(answers) > self._size:
            self._old, self._new = self._new, {}
        # The last of one answer that is more than all of it.
        self._new.update(list(answers.items())[-self._size :])
