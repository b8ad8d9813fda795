"""JSON bodies and texts of inbox items: bursts and digests."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import TypedDict

import msgspec

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Kind, UserId
from notifier.domain.users.digest import Digest, date_of
from notifier.flow.inbox.gap_fetch import opening_second, seq_of
from notifier.flow.inbox.page import BurstItem, DigestItem, InboxItem

# English texts of inbox items.


def burst_text(burst: Burst, names: Sequence[UserId]) -> str:
    """Return the text of a burst. `names` are the mentioners that the viewer may see."""
    target = "you" if burst.key.subject.kind is Kind.SELF else f"@{burst.key.subject.owner}"
    mentioners = _mentioner_list(names, more=burst.more_mentioners)
    if burst.count == 1:
        return f"{mentioners} mentioned {target}"
    return f"{mentioners}, {burst.count} mentions of {target}"


def digest_text(digest: Digest) -> str:
    """Return the text of a digest.

    Names the two most mentioned accounts. If the digest does not cover all bursts of its day, the number of other
    accounts is unknown and left out.
    """
    count = f"{'more than ' if digest.more else ''}{digest.count} mention{'s' if digest.count != 1 else ''}"
    names = [f"@{name}" for name, _ in digest.accounts]
    return f"Your digest: {count} of {_account_list(names, more=digest.more)}"


def _account_list(names: Sequence[str], *, more: bool) -> str:
    match names:
        case [first] if not more:
            return first
        case [first, second] if not more:
            return f"{first} and {second}"
        case [first, second, *remaining] if not more:
            return f"{first}, {second} and {len(remaining)} other{'s' if len(remaining) != 1 else ''}"
        case _:
            return f"{', '.join(names[:2])} and others"


def _mentioner_list(names: Sequence[UserId], *, more: bool) -> str:
    match names:
        case []:
            return "somebody"
        case [first] if not more:
            return first
        case [first, second] if not more:
            return f"{first} and {second}"
        case _:
            return f"{names[0]} and others"


MAX_NAMES = 3
"""Maximum names in the body of an item: mentioners of a burst, or mentioned accounts of a digest."""
MAX_DIGEST_ACCOUNTS = 16


class AccountBody(msgspec.Struct, kw_only=True):
    """An account and the number of its mentions in a digest."""

    account: str
    count: int


class DigestBurstBody(msgspec.Struct, kw_only=True):
    """A burst inside a digest. It has no id and no unread state, and can't be marked."""

    subject: str
    opened_at: datetime
    count: int
    names: list[str]
    more: bool
    text: str
    tweet: str | None


class DigestBody(msgspec.Struct, kw_only=True):
    """The digest of one date in the user's time zone.

    `accounts` lists up to 16 accounts, most mentioned first, and `bursts` the newest bursts, 16 at most. `more` means
    that the day had more than 64 bursts, so older ones may be missing from the counts.
    """

    date: date
    accounts: list[AccountBody]
    bursts: list[DigestBurstBody]
    more: bool


class ItemBody(msgspec.Struct, kw_only=True):
    """An item of the inbox.

    - `burst` is an opaque id: the same in all responses to this user, and different for other users.
    - `seq` is the item's position in its subject: its opening time in Unix seconds. Two items may have equal `seq`.
    - `more` means that `names` may be incomplete.
    - `tweet` is the opener's tweet. It is null for a digest, and while a user block hides the opener.
    - `digest` is set if the item is a daily digest. Then `count` is the number of mentions, and `names` are mentioned
      accounts.
    """

    burst: str
    subject: str
    seq: int
    opened_at: datetime
    count: int
    names: list[str]
    more: bool
    text: str
    tweet: str | None
    unread: bool
    digest: DigestBody | None


class CommonBody(msgspec.Struct, kw_only=True):
    """The part of an item that is the same for all viewers, except where a user block hides names or the tweet.

    `seq` is the opening time, as in `ItemBody`, because the number of the burst is secret.
    """

    subject: str
    seq: int
    opened_at: datetime
    count: int
    names: list[str]
    more: bool
    text: str
    tweet: str | None


class CommonFields(TypedDict):
    """The fields of `CommonBody` except `seq`, as keyword arguments of a body."""

    subject: str
    opened_at: datetime
    count: int
    names: list[str]
    more: bool
    text: str
    tweet: str | None


def item_body(item: InboxItem, id: str, now: datetime) -> ItemBody:
    match item:
        case BurstItem():
            seq = seq_of(item.entry, now)
            return ItemBody(burst=id, seq=seq, **common_fields(item, now), unread=item.unread, digest=None)
        case DigestItem():
            return _digest_item_body(item, id, now)


def common_fields(item: BurstItem, now: datetime) -> CommonFields:
    burst = item.burst
    return {
        "subject": str(burst.key.subject),
        "opened_at": opening_second(burst, now),
        "count": burst.count,
        "names": list(item.mentioners[:MAX_NAMES]),
        "more": burst.more_mentioners or len(item.mentioners) > MAX_NAMES,
        "text": burst_text(burst, item.mentioners),
        "tweet": item.tweet,
    }


def _digest_item_body(item: DigestItem, id: str, now: datetime) -> ItemBody:
    digest = item.digest
    day = date_of(digest.key)
    assert day is not None
    return ItemBody(
        burst=id,
        subject=str(digest.key.subject),
        seq=seq_of(digest, now),
        opened_at=digest.opened_second,
        count=digest.count,
        names=[name for name, _ in digest.accounts[:MAX_NAMES]],
        more=digest.more or len(digest.accounts) > MAX_NAMES,
        text=digest_text(digest),
        tweet=None,
        unread=item.unread,
        digest=DigestBody(
            date=day,
            accounts=[AccountBody(account=name, count=count) for name, count in digest.accounts[:MAX_DIGEST_ACCOUNTS]],
            bursts=[DigestBurstBody(**common_fields(inner, now)) for inner in item.bursts],
            more=digest.more,
        ),
    )
