"""The directory in memory."""

import re
from collections.abc import Collection, Mapping

from notifier.domain.subject import Member, UserId
from notifier.ports.directory import Account, IdRange

_NUMBERED = re.compile(r"(?s:(.*?))(0|[1-9][0-9]{0,17})")


class MemoryDirectory:
    def __init__(self) -> None:
        self._accounts: dict[UserId, Account] = {}
        self._users: dict[Member, UserId] = {}
        self._ranges: list[IdRange] = []

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, Account]:
        found = {user: self._accounts.get(user) or self._in_range(user) for user in users}
        return {user: account for user, account in found.items() if account is not None}

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        found = {member: self._users.get(member) or self._user_in_range(member) for member in members}
        return {member: user for member, user in found.items() if user is not None}

    def enrol(self, accounts: Collection[Account]) -> None:
        self._accounts |= {account.user: account for account in accounts}
        self._users |= {account.member: account.user for account in accounts}

    def enrol_range(self, ids: IdRange) -> None:
        self._ranges.append(ids)

    def deleted(self) -> Collection[Member]:
        return [account.member for account in self._accounts.values() if account.deleted]

    def _in_range(self, user: UserId) -> Account | None:
        prefix, number = parts.groups() if (parts := _NUMBERED.fullmatch(user)) else ("", "-1")
        for ids in self._ranges:
            place = int(number) - ids.first
            if prefix == ids.prefix and 0 <= place < ids.count:
                return Account(user=user, member=Member(ids.member + place))
        return None

    def _user_in_range(self, member: Member) -> UserId | None:
        for ids in self._ranges:
            if 0 <= member - ids.member < ids.count:
                return UserId(f"{ids.prefix}{ids.first + member - ids.member}")
        return None
