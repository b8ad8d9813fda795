"""The baseline's process: a bare handler, and an inbox as a team would write it, on the server of the API role.

`python -m notifier.testing.bench.inbox.server WORDS`, where WORDS is JSON: the stored page, and a Redis with inboxes.
Prints its port once it answers.
"""

import asyncio
import json
import sys
from pathlib import Path

import msgspec
import redis.asyncio
from litestar import Litestar, Response, get
from litestar.datastructures import State
from litestar.params import FromPath

from notifier.api.listening import HUB, leave, listen

PAGE = 20


class Nothing:
    def close(self) -> None:
        return


class Row(msgspec.Struct, kw_only=True):
    burst: str
    subject: str
    opened_at: str
    count: int
    names: list[str]
    more: bool
    text: str
    tweet: str | None


class Item(Row, kw_only=True):
    unread: bool


class Page(msgspec.Struct, kw_only=True):
    items: list[Item]
    next: int | None


def application(page: bytes, unread: bytes, cache: str) -> Litestar:
    client = redis.asyncio.Redis(unix_socket_path=cache) if cache else None
    decoder = msgspec.json.Decoder(Row)

    @get("/page")
    async def bare() -> Response[bytes]:
        return Response(page, media_type="application/json")

    @get("/unread")
    async def small() -> Response[bytes]:
        return Response(unread, media_type="application/json")

    @get("/redis/{user:str}")
    async def inbox(user: FromPath[str]) -> Page:
        assert client is not None
        keys = await client.zrevrange(f"inbox:{user}", 0, PAGE)
        rows = [decoder.decode(row) for row in await client.mget(keys[:PAGE])] if keys else []
        items = [Item(**msgspec.structs.asdict(row), unread=True) for row in rows]
        return Page(items=items, next=PAGE if len(keys) > PAGE else None)

    return Litestar(
        [bare, small, inbox], state=State({HUB: Nothing()}), openapi_config=None, logging_config=None, debug=False
    )


def main(words: str) -> None:
    given = json.loads(words)
    page, unread = Path(given["page"]).read_bytes(), Path(given["unread"]).read_bytes()
    listen(application(page, unread, given.get("cache", "")), "127.0.0.1", 0, lambda port: print(port, flush=True))
    leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
