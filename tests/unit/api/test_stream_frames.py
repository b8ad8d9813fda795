"""A stream frame is one event, whatever its names and texts contain."""

from datetime import timedelta

import pytest

from notifier.api.routes.inbox import BadgeBody
from notifier.api.routes.inbox_stream import frame
from notifier.api.schemas.inbox_items import ItemBody
from notifier.flow.live.streams_and_events import StreamEvent
from tests.http.live_stream_client import parse_events
from tests.support.domain_examples import NOON

HOSTILE = [
    "\n\ndata: {}\n\nevent: reset\ndata: {}\n\n",
    "\r\revent: reset\rdata: 1\r\r",
    "\r\n\r\nid: x\r\n",
    "\u2028\u2029\x85\x0b\x0c",
    "\ufeff: a comment",
    "<script>alert(1)</script>",
    "\u202egnilrut",
    "\x00\x1f",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    item = ItemBody(
        burst="b",
        subject=f"mention:{text}",
        seq=1,
        opened_at=NOON + timedelta(microseconds=1),
        count=1,
        names=[text, text],
        more=False,
        text=text,
        tweet=text,
        unread=True,
        digest=None,
    )
    whole = frame(StreamEvent.ROW, "one", item) + frame(StreamEvent.COUNT, "two", BadgeBody(count=0, more=False))
    row, count = parse_events(whole.decode())
    assert (row.event, row.id, row.data["names"], row.data["text"]) == ("row", "one", [text, text], text)
    assert (count.event, count.id, count.data) == ("count", "two", {"count": 0, "more": False})
    assert not {b"\r", b"\x00"} & {bytes([byte]) for byte in whole}


def test_reset_frame_has_data() -> None:
    """Clients ignore events without data."""
    assert frame(StreamEvent.RESET, "one", None) == b"id: one\nevent: reset\ndata: {}\n\n"
