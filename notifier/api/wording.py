"""What an item of the tab says, in plain English."""

from collections.abc import Sequence

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Kind, UserId
from notifier.domain.users.digest import Digest


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
