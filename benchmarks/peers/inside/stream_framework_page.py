"""Serves pages of Stream-Framework's flat feed on Litestar and granian, in its own environment.

`python stream_framework_page.py SOCKET USERS ITEMS` fills a feed for each user, then writes its port once it answers.

The handler runs in the event loop: reading a feed from a local Redis is faster than switching to a thread.
"""

import asyncio
import socket
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

PAGE = 20
AUTHORS = 2_000
BACKLOG = 1024


def connect(path: str) -> None:
    """Set the pool of the feeds' connections, a variable of their module, to the socket's path."""
    import redis
    from stream_framework.storage.redis import connection

    pool = redis.ConnectionPool(connection_class=redis.UnixDomainSocketConnection, path=path, decode_responses=True)
    connection.connection_pool = {"default": pool}


def fill(users: int, items: int) -> None:
    """Give every user the same activities: each user has a feed, and the activities are stored once."""
    from stream_framework.activity import Activity
    from stream_framework.feeds.redis import RedisFeed
    from stream_framework.verbs.base import Add

    now = datetime.now(UTC).replace(tzinfo=None)
    activities = [Activity(n % AUTHORS, Add, n, time=now - timedelta(minutes=n)) for n in range(items)]
    RedisFeed.insert_activities(activities)
    for number in range(users):
        RedisFeed(number).add_many(activities)


def application() -> Any:
    from litestar import Litestar, get
    from stream_framework.feeds.redis import RedisFeed

    @get("/feed/{user:int}", sync_to_thread=False)
    def page(user: int) -> dict[str, object]:
        items = [
            {
                "id": str(activity.serialization_id),
                "actor": activity.actor_id,
                "verb": activity.verb.past_tense,
                "object": activity.object_id,
                "at": activity.time.isoformat(),
                "text": f"u{activity.actor_id} {activity.verb.past_tense} @star{activity.object_id}",
            }
            for activity in RedisFeed(user)[:PAGE]
        ]
        return {"items": items}

    return Litestar([page], openapi_config=None, logging_config=None)


async def serve(app: Any) -> None:
    from granian.constants import Interfaces
    from granian.server.embed import Server

    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        server = Server(app, address="127.0.0.1", port=port, interface=Interfaces.ASGI, backlog=BACKLOG)
        serving = asyncio.create_task(server.serve())
        while not await answers(port):
            await asyncio.sleep(0.01)
        print(port, file=sys.__stdout__, flush=True)
        await serving


async def answers(port: int) -> bool:
    with suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True
    return False


def main(path: str, users: str, items: str) -> None:
    sys.stdout = sys.stderr  # a library that prints must not corrupt the line with the port
    connect(path)
    fill(int(users), int(items))
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(application()))


if __name__ == "__main__":
    main(*sys.argv[1:])
