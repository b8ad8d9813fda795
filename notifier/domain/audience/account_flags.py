"""Account flags as the account service reports them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_offsets
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.ids import Member, UserId


class Flag(StrEnum):
    VERIFIED = "verified"
    VIP = "vip"
    """A VIP who was active within 7 days is in P0, by the default tier rule."""
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRow:
    """One flag of one member: set or cleared."""

    flag: Flag
    member: Member
    is_set: bool
    sequence: int
    """Sequence number assigned by the account service (>= 1; 0 for imports).

    The highest wins regardless of arrival order; on a tie, setting the flag wins.
    """

    @property
    def key(self) -> "FlagKey":
        return self.flag, self.member

    @property
    def rank(self) -> tuple[int, bool]:
        """Return the sort key of updates for one (flag, member): the highest wins."""
        return self.sequence, self.is_set


FlagKey = tuple[Flag, Member]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountChange:
    """An `account.changed` event."""

    id: EventId
    user: UserId
    sequence: int
    flags: Mapping[Flag, bool]
    """New values. Flags that are missing here are unchanged."""

    def flag_rows(self, member: Member) -> Iterable[FlagRow]:
        return [FlagRow(flag=flag, member=member, is_set=on, sequence=self.sequence) for flag, on in self.flags.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRecord:
    """A record of the users stream: a change, or shards to rebuild."""

    change: AccountChange | None = None
    rebuild_shards: tuple[int, ...] = ()
    """Shards whose VIP bitmap is to be rebuilt from the flag rows."""
    imported: bool = False
    """True if the rebuild follows an import. A rebuild without an import is a repair: differences count as drift."""


def members_with_flag(rows: Iterable[FlagRow]) -> Bits:
    """Return the members for which the flag is set. `rows` are those of one flag in one shard."""
    return from_offsets([row.member % SHARD_MEMBERS for row in rows if row.is_set])
