"""What was seen on a page, without the browser that saw it: so it can be judged where none is installed."""

from collections.abc import Mapping
from dataclasses import dataclass

OF_THE_INBOX = ("/static/notifier-inbox", "/v1/inbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A storm as the demo's page showed it to its visitor."""

    burst: str
    followers: int
    people: int
    """P1's."""
    told_s: float
    """What the page says that P1 took, from the acceptance of the first mention."""
    shown_s: float
    """From the press until the page said so."""


def without_inbox(sizes: Mapping[str, int]) -> Mapping[str, int]:
    """What is left of what was loaded, by path, where the element and its rows aren't on the page."""
    return {path: size for path, size in sizes.items() if not path.startswith(OF_THE_INBOX)}
