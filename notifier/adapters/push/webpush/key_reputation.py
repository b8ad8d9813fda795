"""Standing: what push services think of our key, so that no single subscription can give us a bad name.

Most who refuse a token may mean us, or one browser: anybody can register a subscription that was made for somebody
else's key, or an address of a push service that isn't one of a subscription. A mistake of ours stops all alerts, so a
refusal that names a key shows one only where ours was never taken; otherwise it takes more in a row than one person has
browsers.
"""

from dataclasses import dataclass, field

from notifier.domain.push.device import MOST_DEVICES

ORIGINS = 256
"""As with tokens: whoever makes up names of push services gets nothing taken there."""


@dataclass(slots=True)
class Standing:
    """One process's, of the key that it began with."""

    taken_at: set[str] = field(default_factory=set)
    refusals: int = 0
    """In a row, wherever."""

    def taken(self, origin: str) -> None:
        self.refusals = 0
        if len(self.taken_at) < ORIGINS:
            self.taken_at.add(origin)

    def refused(self, origin: str, *, named: bool) -> bool:
        """Whether it is us. `named`: the answer says that it is about a token or its key."""
        self.refusals += 1
        return (named and origin not in self.taken_at) or self.refusals > MOST_DEVICES
