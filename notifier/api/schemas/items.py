"""Items as JSON: what a list says of a burst, and of a digest."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import TypedDict

import msgspec

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Kind, UserId
from notifier.domain.users.digest import Digest, date_in
from notifier.flow.inbox.gap_fetch import opening_second, seq_of
from notifier.flow.inbox.page import DigestItem, Item, Shown

# What an item of the tab says, in plain English.


def sentence(burst: Burst, names: Sequence[UserId]) -> str:
    """`names` are the mentioners whom the viewer may see; the count is the same for everybody."""
    whom = "you" if burst.key.subject.kind is Kind.SELF else f"@{burst.key.subject.owner}"
    who = _who(names, more=burst.more_mentioners)
    if burst.count == 1:
        return f"{who} mentioned {whom}"
    return f"{who}, {burst.count} mentions of {whom}"


def digest_sentence(digest: Digest) -> str:
    """The two most mentioned accounts by name; of a busy day nobody knows how many others there are."""
    count = f"{'more than ' if digest.more else ''}{digest.count} mention{'s' if digest.count != 1 else ''}"
    names = [f"@{name}" for name, _ in digest.accounts]
    return f"Your digest: {count} of {_accounts(names, more=digest.more)}"


def _accounts(names: Sequence[str], *, more: bool) -> str:
    match names:
        case [one] if not more:
            return one
        case [one, another] if not more:
            return f"{one} and {another}"
        case [one, another, *others] if not more:
            return f"{one}, {another} and {len(others)} other{'s' if len(others) != 1 else ''}"
        case _:
            return f"{', '.join(names[:2])} and others"


def _who(names: Sequence[UserId], *, more: bool) -> str:
    match names:
        case []:
            return "somebody"
        case [one] if not more:
            return one
        case [one, another] if not more:
            return f"{one} and {another}"
        case _:
            return f"{names[0]} and others"


NAMES_SHOWN = 3
ACCOUNTS_TOLD = 16
"""Of a digest, the most mentioned."""


class AccountBody(msgspec.Struct, kw_only=True):
    account: str
    count: int
    """Mentions."""


class InsideBody(msgspec.Struct, kw_only=True):
    """What an item of its own would say. It is no item: nothing is marked or counted of it singly."""

    subject: str
    opened_at: datetime
    count: int
    names: list[str]
    more: bool
    text: str
    tweet: str | None


class DigestBody(msgspec.Struct, kw_only=True):
    date: date
    """By the person's own calendar."""
    accounts: list[AccountBody]
    """The most mentioned first, 16 at most."""
    inside: list[InsideBody]
    """The newest, 16 at most."""
    more: bool
    """There were more of them than the digest tells of."""


class ItemBody(msgspec.Struct, kw_only=True):
    burst: str
    """Opaque; the same for this person for ever, and another one for everybody else."""
    subject: str
    seq: int
    """Position in the subject: the second of the opening, in Unix time. Two items may share it."""
    opened_at: datetime
    count: int
    names: list[str]
    more: bool
    """Others mentioned the subject too."""
    text: str
    tweet: str | None
    """The opener's tweet; null where the viewer blocked the opener or was blocked by the opener."""
    unread: bool
    digest: DigestBody | None
    """Where the item is one of a whole day; then `count` are its mentions, and `names` the accounts."""


class CommonBody(msgspec.Struct, kw_only=True):
    """What an item says to everybody who sees all of it."""

    subject: str
    seq: int
    opened_at: datetime
    count: int
    names: list[str]
    more: bool
    text: str
    tweet: str | None


class Said(TypedDict):
    subject: str
    opened_at: datetime
    count: int
    names: list[str]
    more: bool
    text: str
    tweet: str | None


def item_body(item: Shown, id: str, now: datetime) -> ItemBody:
    match item:
        case Item():
            seq = seq_of(item.entry, now)
            return ItemBody(burst=id, seq=seq, **common_body(item, now), unread=item.unread, digest=None)
        case DigestItem():
            return _digest_item_body(item, id, now)


def common_body(item: Item, now: datetime) -> Said:
    burst = item.burst
    return {
        "subject": str(burst.key.subject),
        "opened_at": opening_second(burst, now),
        "count": burst.count,
        "names": list(item.names[:NAMES_SHOWN]),
        "more": burst.more_mentioners or len(item.names) > NAMES_SHOWN,
        "text": sentence(burst, item.names),
        "tweet": item.tweet,
    }


def _digest_item_body(item: DigestItem, id: str, now: datetime) -> ItemBody:
    digest = item.digest
    day = date_in(digest.key)
    assert day is not None
    return ItemBody(
        burst=id,
        subject=str(digest.key.subject),
        seq=seq_of(digest, now),
        opened_at=digest.opened_in,
        count=digest.count,
        names=[name for name, _ in digest.accounts[:NAMES_SHOWN]],
        more=digest.more or len(digest.accounts) > NAMES_SHOWN,
        text=digest_sentence(digest),
        tweet=None,
        unread=item.unread,
        digest=DigestBody(
            date=day,
            accounts=[AccountBody(account=name, count=count) for name, count in digest.accounts[:ACCOUNTS_TOLD]],
            inside=[InsideBody(**common_body(each, now)) for each in item.inside],
            more=digest.more,
        ),
    )
