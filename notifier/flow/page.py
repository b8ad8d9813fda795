"""A page of the tab and its badge: what somebody is given, and whom and when it was made for."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from notifier.domain.burst import Burst
from notifier.domain.marks import SeenToken
from notifier.domain.subject import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.visible import Viewer, unread, visible
from notifier.ports.timeline import Place

BADGE_MOST = 100
"""Shown as 99+: nobody reads a larger number, and counting on costs reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    burst: Burst
    names: tuple[UserId, ...]
    """The mentioners, without those whom the viewer blocked or who blocked the viewer."""
    tweet: str | None
    """The opener's; None where a block parts the viewer from the opener, though others joined."""
    unread: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    count: int
    more: bool
    """There are more than were counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    items: Sequence[Item]
    next: Place | None
    seen: SeenToken | None
    """None on a partial page, which can't say what was seen."""
    partial: bool
    look: "Look"
    """That it was made for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One viewer at one moment."""

    viewer: Viewer
    member: Member
    now: datetime

    @property
    def subjects(self) -> Sequence[Subject]:
        return Subject(Kind.SELF, self.viewer.user), *self.viewer.heard

    def admits(self, burst: Burst) -> bool:
        return visible(burst, self.viewer, now=self.now)

    def item(self, burst: Burst) -> Item:
        blocked = self.viewer.blocked
        return Item(
            burst=burst,
            names=tuple(name for name in burst.mentioners if name not in blocked),
            tweet=None if burst.opener in blocked else burst.tweet,
            unread=unread(burst, self.viewer),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What somebody was given at one moment."""

    look: Look
    after: Place | None
    page: Page | None
    """None where the badge alone was asked for."""
    badge: Badge | None


def badge_of(unread: Collection[BurstKey]) -> Badge:
    return Badge(count=min(len(unread), BADGE_MOST), more=len(unread) > BADGE_MOST)
