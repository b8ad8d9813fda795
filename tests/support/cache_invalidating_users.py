"""In-memory users whose setters invalidate cached viewer facts."""

from datetime import datetime

from notifier.domain.ids import Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferencesChange, AccountPreferencesPatch
from notifier.domain.users.subject_preferences import PreferenceChange
from notifier.domain.users.user_blocks import UserBlock
from notifier.ports.inbox_cache_freshness import ALL_MEMBERS
from notifier.ports.user_directory_and_account_flags import Directory
from tests.support.fakes.inbox_cache_freshness import MemoryVersions
from tests.support.fakes.viewer_facts import MemoryPeople


class CacheInvalidatingPeople(MemoryPeople):
    def __init__(self, directory: Directory, versions: MemoryVersions) -> None:
        super().__init__(directory)
        self._versions = versions

    def follow(self, user: UserId, subject: Subject, visible_from: datetime) -> None:
        super().follow(user, subject, visible_from)
        self._announce()

    def unfollow(self, user: UserId, subject: Subject) -> None:
        super().unfollow(user, subject)
        self._announce()

    def apply_block(self, block: UserBlock) -> None:
        super().apply_block(block)
        self._announce()

    def apply_change(self, change: PreferenceChange) -> None:
        super().apply_change(change)
        self._announce()

    def patch_account(self, user: UserId, patch: AccountPreferencesPatch) -> None:
        super().patch_account(user, patch)
        self._announce()

    def apply_account_change(self, change: AccountPreferencesChange) -> None:
        super().apply_account_change(change)
        self._announce()

    def _announce(self) -> None:
        self._versions.start_change([ALL_MEMBERS], "a test")
        self._versions.end_change([ALL_MEMBERS], "a test")
