"""Redis or Valkey adapters: pull index, small caches, push limits and live bus.

All data is disposable: the server may be emptied at any moment.
"""

from notifier.adapters.redis.activity import RedisActiveHours, RedisActivity
from notifier.adapters.redis.cache import RedisBacklogReport, RedisBuckets, RedisPressure, RedisRecent
from notifier.adapters.redis.connect import RedisServer, await_answer, connect, connect_async, look
from notifier.adapters.redis.live_bus import RedisBus, RedisLiveReader
from notifier.adapters.redis.pull_index import RedisPullIndex
from notifier.adapters.redis.pull_reader import RedisPullReader
from notifier.adapters.redis.push_limits import RedisCaps, RedisLineReport, RedisPaces, RedisTabReport
from notifier.adapters.redis.viewer_versions import RedisInboxVersions, RedisViewerVersions

__all__ = [
    "RedisActiveHours",
    "RedisActivity",
    "RedisBacklogReport",
    "RedisBuckets",
    "RedisBus",
    "RedisCaps",
    "RedisInboxVersions",
    "RedisLineReport",
    "RedisLiveReader",
    "RedisPaces",
    "RedisPressure",
    "RedisPullIndex",
    "RedisPullReader",
    "RedisRecent",
    "RedisServer",
    "RedisTabReport",
    "RedisViewerVersions",
    "await_answer",
    "connect",
    "connect_async",
    "look",
]
