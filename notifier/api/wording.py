"""What an item of the tab says, in plain English."""

from collections.abc import Sequence

from notifier.domain.burst import Burst
from notifier.domain.subject import Kind, UserId


def sentence(burst: Burst, names: Sequence[UserId]) -> str:
    """`names` are the mentioners whom the viewer may see; the count is the same for everybody."""
    whom = "you" if burst.key.subject.kind is Kind.SELF else f"@{burst.key.subject.owner}"
    who = _who(names, more=burst.more_mentioners)
    if burst.count == 1:
        return f"{who} mentioned {whom}"
    return f"{who}, {burst.count} mentions of {whom}"


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
