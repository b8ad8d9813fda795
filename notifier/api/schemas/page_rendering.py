"""Render inbox pages as JSON and cache the parts that viewers share."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from notifier.api.opaque_ids import OpaqueIds
from notifier.api.response_parts import etag
from notifier.api.schemas.inbox_items import CommonBody, common_fields, item_body
from notifier.codec import pack, unpack
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.users.visibility import CERTAINLY_VISIBLE_AGE
from notifier.flow.inbox.gap_fetch import seq_of
from notifier.flow.inbox.page import Badge, BurstItem, InboxItem, Page
from notifier.flow.inbox.viewer_and_page_cache import InboxAnswer
from notifier.flow.live.streams_and_events import StreamPosition
from notifier.metrics import CacheCounters

MAX_CACHED_BURSTS = 10_000
"""Maximum bursts whose JSON is cached: about 6 MB."""

NULL, TRUE, FALSE = b"null", b"true", b"false"


@dataclass(slots=True, eq=False, kw_only=True)
class RenderedPage:
    """A page of one viewer, with its items as JSON and its ETag."""

    page: Page
    badge: Badge | None
    tag: str
    """The ETag."""
    items: bytes
    """The items as JSON, separated by commas."""
    ids: Mapping[BurstKey, str]
    """This viewer's opaque ids of the items. Empty if another process rendered the page."""
    next: bytes | None
    """The next page's cursor, as JSON."""
    stream_position: StreamPosition
    """The position from which a stream continues after this page."""
    can_resume: bool
    opaque_ids: OpaqueIds
    _body: bytes | None = None

    @property
    def body(self) -> bytes:
        """The JSON body, built on first access because a 304 response needs none."""
        if self._body is None:
            user, page = self.page.view.viewer.user, self.page
            seen = _json_text(self.opaque_ids.encode_seen(page.seen)) if page.seen else NULL
            live = _json_text(self.opaque_ids.event_id(user, self.stream_position)) if self.can_resume else NULL
            partial = TRUE if page.partial else FALSE
            rows = (b'{"items":[', self.items, b'],"next":', self.next or NULL)
            tokens = (b',"seen":', seen, b',"live":', live)
            self._body = b"".join((*rows, *tokens, b',"badge":', badge_json(self.badge), b',"partial":', partial, b"}"))
        return self._body

    def has_same_content(self, page: Page, badge: Badge | None) -> bool:
        """Return whether this rendered page's ETag is valid for `page` and `badge`. The tokens may differ."""
        own = self.page
        is_same_page = own.items is page.items and own.partial == page.partial and own.next == page.next
        return is_same_page and self.badge == badge


@dataclass(frozen=True, slots=True, kw_only=True)
class _SharedPage:
    """A rendered page, stored in Redis for other processes. It has no tokens, because these depend on the time."""

    tag: str
    items: bytes
    next: bytes | None
    sight: bytes
    """`visibility_fingerprint` of the stream position."""
    marks: bytes


@dataclass(slots=True, kw_only=True)
class Renderer:
    """Renders pages and caches encoded bursts. One instance per event loop."""

    opaque_ids: OpaqueIds
    stats: CacheCounters
    encoded_count: int = 0
    """Number of items that were not in the cache, and were encoded."""
    _encoded_bursts: "OrderedDict[BurstKey, tuple[Burst, bytes]]" = field(default_factory=OrderedDict)
    """The encoded common part of each burst, without its braces."""

    def first_page(self, user: UserId, answer: InboxAnswer) -> RenderedPage:
        """Render a first page, and cache the result in `answer`. Reuse unchanged parts of the previous result."""
        if isinstance(answer.rendered, bytes):
            answer.rendered = self._unpack_shared(answer, answer.rendered)
        previous = answer.rendered if isinstance(answer.rendered, RenderedPage) else None
        if previous is not None and previous.page is answer.page:
            return previous
        answer.rendered = rendered = self.page(user, answer.page, answer.badge, previous, is_first_page=True)
        return rendered

    def render_for_sharing(self, answer: InboxAnswer) -> bytes:
        """Return the rendered page as bytes. Another process can send it without rendering it again."""
        rendered = self.first_page(answer.page.view.viewer.user, answer)
        position = rendered.stream_position
        return pack(
            _SharedPage(
                tag=rendered.tag,
                items=rendered.items,
                next=rendered.next,
                sight=position.visibility_fingerprint,
                marks=position.marks_fingerprint,
            )
        )

    def _unpack_shared(self, answer: InboxAnswer, packed: bytes) -> RenderedPage | None:
        try:
            shared, page = unpack(_SharedPage, packed), answer.page
        except Poison:  # from another version of the software, or garbage
            return None
        return RenderedPage(
            page=page,
            badge=answer.badge,
            tag=shared.tag,
            items=shared.items,
            ids={},
            next=shared.next,
            stream_position=StreamPosition(
                as_of=page.view.now - CERTAINLY_VISIBLE_AGE,
                visibility_fingerprint=shared.sight,
                marks_fingerprint=shared.marks,
            ),
            can_resume=True,
            opaque_ids=self.opaque_ids,
        )

    def page(
        self,
        user: UserId,
        page: Page,
        badge: Badge | None,
        previous: RenderedPage | None = None,
        *,
        is_first_page: bool,
    ) -> RenderedPage:
        """Render a page. A stream can continue only from the first page, the one without a cursor."""
        if previous is not None and previous.page.items is page.items:
            ids, items, cursor = previous.ids, previous.items, previous.next
        else:
            ids = self._ids(user, page.items, previous.ids if previous else {})
            encoded_before = self.encoded_count
            items = b",".join([self._item_json(item, ids[item.entry.key], page.view.now) for item in page.items])
            self.stats.misses.inc(self.encoded_count - encoded_before)
            self.stats.hits.inc(len(page.items) - self.encoded_count + encoded_before)
            cursor = _json_text(self.opaque_ids.cursor(user, page.next)) if page.next else None
        return RenderedPage(
            page=page,
            badge=badge,
            tag=previous.tag
            if previous is not None and previous.has_same_content(page, badge)
            else _etag(user, page, badge, items),
            items=items,
            ids=ids,
            next=cursor,
            stream_position=_stream_position(page, previous),
            can_resume=is_first_page and not page.partial,
            opaque_ids=self.opaque_ids,
        )

    def _ids(
        self, user: UserId, items: Sequence[InboxItem], known_ids: Mapping[BurstKey, str]
    ) -> Mapping[BurstKey, str]:
        keys = [item.entry.key for item in items]
        return {key: known_ids.get(key) or self.opaque_ids.id(user, key) for key in keys}

    def _item_json(self, item: InboxItem, id: str, now: datetime) -> bytes:
        common = self._common_json(item, now) if isinstance(item, BurstItem) else None
        if common is None:
            self.encoded_count += 1
            return msgspec.json.encode(item_body(item, id, now))
        unread = TRUE if item.unread else FALSE
        return b"".join((b'{"burst":"', id.encode(), b'",', common, b',"unread":', unread, b',"digest":null}'))

    def _common_json(self, item: BurstItem, now: datetime) -> bytes | None:
        """Return the encoded part that all viewers share.

        Return None if the part differs for this viewer, because a user block hides names or the tweet. Also return None
        if the burst's opening time is still ahead of our clock.
        """
        burst = item.burst
        if len(item.mentioners) != len(burst.mentioners) or item.tweet is None or burst.opened_second > now:
            return None
        cached = self._encoded_bursts.get(burst.key)
        if cached is not None and cached[0] is burst:
            return cached[1]
        self.encoded_count += 1
        encoded = msgspec.json.encode(CommonBody(seq=seq_of(burst, now), **common_fields(item, now)))[1:-1]
        self._encoded_bursts[burst.key] = burst, encoded
        if len(self._encoded_bursts) > MAX_CACHED_BURSTS:
            self._encoded_bursts.popitem(last=False)
        return encoded


def _stream_position(page: Page, previous: RenderedPage | None) -> StreamPosition:
    """Return the position from which a stream continues after the page.

    Reuse the fingerprints of the previous page if it was made from the same viewer facts.
    """
    if previous is None or previous.page.view.viewer is not page.view.viewer:
        return StreamPosition.of_view(page.view)
    return replace(previous.stream_position, as_of=page.view.now - CERTAINLY_VISIBLE_AGE)


def _etag(user: UserId, page: Page, badge: Badge | None, items: bytes) -> str:
    """Return the page's ETag. It ignores `seen` and `live`: older ones still work, so a client may keep them."""
    partial, more = (TRUE if page.partial else FALSE), (TRUE if page.next else FALSE)
    return etag(b"\n".join((user.encode(), items, badge_json(badge), partial, more)), weak=True)


def badge_json(badge: Badge | None) -> bytes:
    if badge is None:
        return NULL
    return b'{"count":%d,"more":%s}' % (badge.count, TRUE if badge.more else FALSE)


def _json_text(text: str) -> bytes:
    """Encode an opaque id or token, which contains no characters that need escaping."""
    return b'"%s"' % text.encode()
