"""Directory that caches which number each user has.

An assigned number never changes, so the cache is never stale.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.ids import Member, UserId
from notifier.ports.user_directory_and_account_flags import Directory, DirectoryEntry

MAX_GENERATION_ENTRIES = 131_072
"""Maximum number of entries in one generation. A directory has two caches of two generations: about 60 MB at most."""

K = TypeVar("K")
V = TypeVar("V")


class CachedDirectory:
    """Cache of assigned numbers. All other queries go to the directory, because their answers may change."""

    def __init__(self, directory: Directory, capacity: int = MAX_GENERATION_ENTRIES) -> None:
        self._directory = directory
        self._numbers = TwoGenerationCache(directory.assign_numbers, capacity)
        self._users = TwoGenerationCache(directory.users, capacity)

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, DirectoryEntry]:
        return self._directory.accounts(users)

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        return self._users.get(members)

    def assign_numbers(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        return self._numbers.get(users)

    def lease(self, count: int) -> Member:
        return self._directory.lease(count)

    def next_number(self) -> Member:
        return self._directory.next_number()

    def enrol(self, accounts: Collection[DirectoryEntry]) -> None:
        self._directory.enrol(accounts)

    def enrol_range(self, ids: IdRange) -> None:
        self._directory.enrol_range(ids)

    def id_range_of(self, user: UserId) -> IdRange | None:
        return self._directory.id_range_of(user)


class TwoGenerationCache(Generic[K, V]):
    """Cache in two generations. When the new generation is full, it becomes the old one, and a new one begins.

    A read copies an old entry to the new generation, so only unused entries are lost. Thread-safe: at worst, concurrent
    calls load the same key twice.
    """

    def __init__(self, load: Callable[[Collection[K]], Mapping[K, V]], capacity: int) -> None:
        self._load = load
        self._capacity = capacity
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, keys: Collection[K]) -> Mapping[K, V]:
        new, old = self._new, self._old
        from_new = {key: new[key] for key in keys if key in new}
        if len(from_new) == len(keys):
            return from_new
        from_old = {key: old[key] for key in keys if key in old}
        missing = [key for key in keys if key not in from_new and key not in from_old]
        loaded = self._load(missing) if missing else {}
        self._store({**from_old, **loaded})
        return {**from_new, **from_old, **loaded}

    def _store(self, entries: Mapping[K, V]) -> None:
        if len(self._new) + len(entries) > self._capacity:
            self._old, self._new = self._new, {}
        # If the entries exceed the capacity, keep the last ones.
        self._new.update(list(entries.items())[-self._capacity :])
