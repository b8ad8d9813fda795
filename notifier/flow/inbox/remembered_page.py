"""First pages of VIPs, as one process leaves them in Redis and another one shows them without evaluating them again."""

from collections.abc import Sequence
from typing import Protocol, overload

from notifier.codec import pack, unpack
from notifier.domain.bursts.burst import Burst
from notifier.flow.inbox.evaluation import seen_token
from notifier.flow.inbox.page import Badge, Look, Page, Shown
from notifier.flow.inbox.viewer_cache import Opening
from notifier.ports.inbox_versions import RememberedPage


class PageRenderer(Protocol):
    def remembered(self, opening: Opening) -> bytes:
        """Return the answer that other processes send for this opening."""
        ...


class RememberedItems(Sequence[Shown]):
    """Decoded when somebody looks at one. A page that is sent as another process rendered it needs none."""

    __slots__ = ("_bursts", "_count", "_decoded", "_look")

    def __init__(self, page: RememberedPage, look: Look) -> None:
        self._bursts, self._count, self._look = page.bursts, page.count, look
        self._decoded: Sequence[Shown] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Shown: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Shown]: ...
    def __getitem__(self, at: int | slice) -> Shown | Sequence[Shown]:
        if self._decoded is None:
            self._decoded = [self._look.shown(burst) for burst in unpack(list[Burst], self._bursts)]
            self._bursts = b""
        return self._decoded[at]


def remembered_page(opening: Opening, limit: int, renderer: PageRenderer | None, maker: bytes) -> RememberedPage | None:
    """Return what another process can prove: nothing partial, and no digests, which the store alone tells of."""
    page, badge = opening.page, opening.badge
    bursts = [item.entry for item in page.items if isinstance(item.entry, Burst)]
    if page.partial or badge is None or page.look.digested or len(bursts) < len(page.items):
        return None
    return RememberedPage(
        limit=limit,
        count=len(bursts),
        bursts=pack(bursts),
        newest=max((burst.opened_at for burst in bursts), default=None),
        next=page.next,
        unread=badge.count,
        more_unread=badge.more,
        current_at=opening.current_at,
        valid_until=opening.valid_until,
        rendered=b"" if renderer is None else renderer.remembered(opening),
        maker=maker,
    )


def adopted(page: RememberedPage, look: Look, turn: int) -> Opening:
    """Return the opening of a page that is proved current at the moment of the look, in this turn of the cache."""
    items = RememberedItems(page, look)
    seen = seen_token(look, [], None)
    if page.newest is not None and page.newest > seen.as_of:
        seen = seen_token(look, [item.entry for item in items], None)
    return Opening(
        page=Page(items=items, next=page.next, seen=seen, partial=False, look=look),
        badge=Badge(count=page.unread, more=page.more_unread),
        turn=turn,
        current_at=look.now,
        valid_until=page.valid_until,
        subjects=look.subjects,
        rendered=page.rendered or None,
        own_bytes=page.own_bytes,
    )
