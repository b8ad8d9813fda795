"""Serves the baselines: a bare handler, and a typical inbox in Redis.

`python -m benchmarks.inbox.baseline_server FILES` runs on the API's own server. FILES are the BaselineFiles as JSON. It
writes its port once it answers.
"""

import sys
from pathlib import Path

import msgspec
import redis.asyncio
from litestar import Litestar, Response, get
from litestar.datastructures import State
from litestar.params import FromPath
from litestar.types import ControllerRouterHandler

from notifier.api.http_server import HUB_KEY, exit_now, listen

PAGE = 20
"""Items per page."""
INBOX, MENTION = "inbox:{}", "mention:{}"
"""Redis keys: a sorted set of a user's mentions, newest highest, and the JSON of one mention."""
COMMAND = ("-m", "benchmarks.inbox.baseline_server")


class BaselineFiles(msgspec.Struct, kw_only=True):
    """Files and the socket that the process serves."""

    page: str
    """File with a page's JSON."""
    unread: str
    """File with a badge's JSON."""
    cache: str
    """Path of the socket of a Redis that holds the inboxes."""


class StoredMention(msgspec.Struct, kw_only=True):
    burst: str
    subject: str
    opened_at: str
    count: int
    names: list[str]
    more: bool
    text: str
    tweet: str | None


class StoredItem(StoredMention, kw_only=True):
    unread: bool


class StoredPage(msgspec.Struct, kw_only=True):
    items: list[StoredItem]
    next: int | None


class NoStreams:
    """Replaces the API's live hub, which `listen` closes."""

    def close(self) -> None:
        return


def application(stored: BaselineFiles) -> Litestar:
    handlers = [*_bare(stored), _by_hand(stored)]
    return Litestar(
        handlers,
        state=State({HUB_KEY: NoStreams()}),
        openapi_config=None,
        logging_config=None,
        debug=False,
        pdb_on_exception=False,
    )


def _bare(stored: BaselineFiles) -> list[ControllerRouterHandler]:
    """Answer with stored bytes and do nothing else."""
    content, small = Path(stored.page).read_bytes(), Path(stored.unread).read_bytes()

    @get("/bare/page")
    async def page() -> Response[bytes]:
        return Response(content, media_type="application/json")

    @get("/bare/unread")
    async def unread() -> Response[bytes]:
        return Response(small, media_type="application/json")

    return [page, unread]


def _by_hand(stored: BaselineFiles) -> ControllerRouterHandler:
    """Serve a page of 20 by ZREVRANGE, MGET and msgspec.

    It verifies no token and counts nothing unread, which makes it faster.
    """
    client = redis.asyncio.Redis(unix_socket_path=stored.cache)
    decoder = msgspec.json.Decoder(StoredMention)

    @get("/redis/{user:str}")
    async def page(user: FromPath[str]) -> StoredPage:
        keys = [key for key in await client.zrevrange(INBOX.format(user), 0, PAGE) if isinstance(key, bytes)]
        mentions = [decoder.decode(blob) for blob in await client.mget(keys[:PAGE]) if blob] if keys else []
        items = [StoredItem(**msgspec.structs.asdict(mention), unread=True) for mention in mentions]
        return StoredPage(items=items, next=PAGE if len(keys) > PAGE else None)

    return page


def main(arguments: str) -> None:
    listen(
        application(msgspec.json.decode(arguments, type=BaselineFiles)),
        "127.0.0.1",
        0,
        lambda port: print(port, flush=True),
    )
    exit_now()


if __name__ == "__main__":
    main(sys.argv[1])
