"""What the platform says of an account: flags, of which each stands or falls by what was said of it last."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_offsets
from notifier.domain.bursts.mention import EventId
from notifier.domain.ids import Member, UserId


class Flag(StrEnum):
    VERIFIED = "verified"
    VIP = "vip"
    """Comes first, while active within 7 days."""
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flagged:
    flag: Flag
    member: Member
    on: bool
    sequence: int
    """Of the account, by whoever keeps it, from 1 on, or 0 of an import: the highest counts, however late it comes. Of
    two with the same number the one that sets the flag does."""

    @property
    def place(self) -> "Place":
        return self.flag, self.member

    @property
    def rank(self) -> tuple[int, bool]:
        """Of two that are said of one place the higher stands."""
        return self.sequence, self.on


Place = tuple[Flag, Member]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountChange:
    id: EventId
    user: UserId
    sequence: int
    said: Mapping[Flag, bool]
    """What isn't named stays as it is."""

    def flagged(self, member: Member) -> Iterable[Flagged]:
        return [Flagged(flag=flag, member=member, on=on, sequence=self.sequence) for flag, on in self.said.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRecord:
    """What the stream carries: one of them."""

    change: AccountChange | None = None
    anew: tuple[int, ...] = ()
    """Shards whose bitmap of VIPs is to be made again from the flags."""
    imported: bool = False
    """Since rows were added. Else something is wrong, and by how much is counted as drift."""


def flying(found: Iterable[Flagged]) -> Bits:
    """Those of one flag and shard for whom it is set."""
    return from_offsets([one.member % SHARD_MEMBERS for one in found if one.on])
