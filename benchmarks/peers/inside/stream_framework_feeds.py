"""Fans out with Stream-Framework 1.4.0 and redis 2.10.6, into flat and notification feeds.

The feed manager has an argument `async`, a keyword since Python 3.7, so its module can't be parsed. It is loaded with
that name changed, and the installed file stays as it is. Its feeds need no change.

The fan-out is called directly, without its Celery tasks, which saves their cost.
"""

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

MANAGER = "stream_framework.feed_managers.base"
NAME_THAT_IS_A_KEYWORD = re.compile(r"\basync\b")
AUTHOR = 1


class StreamFrameworkFeeds:
    """Feeds connect through a pool in a module's variable, which is created here with the socket's path."""

    def __init__(self, socket: str, feed: Any) -> None:
        import redis
        from stream_framework.storage.redis import connection

        kind = redis.UnixDomainSocketConnection
        pool = redis.ConnectionPool(connection_class=kind, path=socket, decode_responses=True)
        connection.connection_pool = {"default": pool}
        self._redis = redis.StrictRedis(connection_pool=pool)
        self._feed = feed
        self._manager = manager_module().Manager()

    def deliver(self, people: Sequence[int], burst: int) -> None:
        from stream_framework.activity import Activity
        from stream_framework.verbs.base import Add

        activity = Activity(AUTHOR, Add, burst, time=datetime.now(UTC).replace(tzinfo=None))
        self._feed.insert_activity(activity)
        size = self._manager.fanout_chunk_size
        for first in range(0, len(people), size):
            self._fan_out(people[first : first + size], activity)

    def reached(self, people: Sequence[int]) -> int:
        pipeline = self._redis.pipeline(transaction=False)
        for person in people:
            pipeline.zcard(self._feed.key_format % {"user_id": person})
        counts: list[int] = pipeline.execute()
        return counts.count(1)

    def close(self) -> None:
        self._redis.connection_pool.disconnect()

    def _fan_out(self, people: Sequence[int], activity: Any) -> None:
        operation = {"activities": [activity], "trim": True}
        self._manager.fanout(people, self._feed, manager_module().add_operation, operation)


def notification(socket: str) -> StreamFrameworkFeeds:
    from stream_framework.feeds.notification_feed.redis import RedisNotificationFeed

    return StreamFrameworkFeeds(socket, RedisNotificationFeed)


def flat(socket: str) -> StreamFrameworkFeeds:
    from stream_framework.feeds.redis import RedisFeed

    return StreamFrameworkFeeds(socket, RedisFeed)


def manager_module() -> Any:
    if MANAGER not in sys.modules:
        spec = find_spec(MANAGER)
        assert spec
        assert spec.origin
        module = module_from_spec(spec)
        text = NAME_THAT_IS_A_KEYWORD.sub("asynchronous", Path(spec.origin).read_text(encoding="utf-8"))
        exec(compile(text, spec.origin, "exec"), module.__dict__)
        sys.modules[MANAGER] = module
    return sys.modules[MANAGER]
