"""Inbox pages and badges of one viewer at one moment."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.digest import Digest
from notifier.domain.users.visibility import SeenToken, Viewer, is_unread, is_visible
from notifier.ports.inbox import InboxPosition

BADGE_LIMIT = 100
"""Maximum number of unread entries that a badge counts. Clients show 99+: larger numbers do not help users, and cost
more reads."""


Entry = Burst | Digest
"""A burst or digest of the inbox. An `InboxItem` is an entry as one viewer is shown it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstItem:
    """A burst as one viewer is shown it."""

    burst: Burst
    mentioners: tuple[UserId, ...]
    """The mentioners, without those that the viewer blocked or that blocked the viewer."""
    tweet: str | None
    """The opener's tweet; None if a user block hides the opener."""
    unread: bool

    @property
    def entry(self) -> Entry:
        return self.burst


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestItem:
    """A digest as one viewer is shown it."""

    digest: Digest
    bursts: tuple[BurstItem, ...]
    """The digest's newest bursts, each as it would appear in the list."""
    unread: bool

    @property
    def entry(self) -> Entry:
        return self.digest


InboxItem = BurstItem | DigestItem


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """Number of unread entries, up to BADGE_LIMIT."""

    count: int
    more: bool
    """Whether there are more unread entries than `count`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of one viewer's inbox, newest item first."""

    items: Sequence[InboxItem]
    next: InboxPosition | None
    """Position after which the next page starts. None on the last page and on a partial page."""
    seen: SeenToken | None
    """Token with which a client marks the page as seen. None on a partial page, which may lack entries."""
    partial: bool
    view: "InboxView"


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxView:
    """A viewer and the moment for which a page is made."""

    viewer: Viewer
    member: Member
    now: datetime

    @property
    def subjects(self) -> Sequence[Subject]:
        """Return the subjects whose bursts are listed one by one, not in a digest. The viewer's own comes first."""
        followed, in_digest = self.viewer.listed_subjects, {*self.digest_subjects}
        individual = [subject for subject in followed if subject not in in_digest] if in_digest else followed
        return Subject(Kind.SELF, self.viewer.user), *individual

    @property
    def digest_subjects(self) -> Collection[Subject]:
        return self.viewer.digest_subjects

    def is_visible(self, entry: Entry) -> bool:
        match entry:
            case Burst():
                return is_visible(entry, self.viewer, now=self.now)
            case Digest():
                return entry.is_visible(self.viewer, self.now)

    def to_item(self, entry: Entry) -> InboxItem:
        match entry:
            case Burst():
                return self.burst_item(entry)
            case Digest():
                bursts = tuple(self.burst_item(burst) for burst in entry.newest)
                return DigestItem(digest=entry, bursts=bursts, unread=is_unread(entry, self.viewer))

    def burst_item(self, burst: Burst) -> BurstItem:
        blocked = self.viewer.blocked
        return BurstItem(
            burst=burst,
            mentioners=tuple(name for name in burst.mentioners if name not in blocked),
            tweet=None if burst.opener in blocked else burst.tweet,
            unread=is_unread(burst, self.viewer),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedInbox:
    """Answer to a request: the page and the badge of one moment."""

    view: InboxView
    after: InboxPosition | None
    """Position after which the page starts; None for a first page."""
    page: Page | None
    """None if no page was requested."""
    badge: Badge | None
    """None on a partial page, or if it was not requested or could not be counted."""


def badge_of(unread: Collection[BurstKey]) -> Badge:
    return Badge(count=min(len(unread), BADGE_LIMIT), more=len(unread) > BADGE_LIMIT)
