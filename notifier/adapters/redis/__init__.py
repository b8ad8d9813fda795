"""Redis and Valkey adapters: pull index, small caches, push limits, live bus.

All data is disposable: the server may be emptied at any moment.
"""

from notifier.adapters.redis.activity import RedisActiveHours, RedisActivity
from notifier.adapters.redis.connect import RedisServerStatus, await_answer, connect, connect_async, server_status
from notifier.adapters.redis.live_bus import RedisLiveBus, RedisLiveReader
from notifier.adapters.redis.pull_index_reader import RedisPullReader
from notifier.adapters.redis.pull_index_writer import RedisPullIndex
from notifier.adapters.redis.push_limits_and_reports import (
    RedisCircuitReport,
    RedisFrequencyCaps,
    RedisInboxLatencyReport,
    RedisProviderRates,
)
from notifier.adapters.redis.recent_events_and_load_limits import (
    RedisBacklogReport,
    RedisBackpressure,
    RedisRecentEvents,
    RedisTokenBuckets,
)
from notifier.adapters.redis.viewer_versions_and_burst_stream import RedisViewerVersionReader, RedisViewerVersionWriter

__all__ = [
    "RedisActiveHours",
    "RedisActivity",
    "RedisBacklogReport",
    "RedisBackpressure",
    "RedisCircuitReport",
    "RedisFrequencyCaps",
    "RedisInboxLatencyReport",
    "RedisLiveBus",
    "RedisLiveReader",
    "RedisProviderRates",
    "RedisPullIndex",
    "RedisPullReader",
    "RedisRecentEvents",
    "RedisServerStatus",
    "RedisTokenBuckets",
    "RedisViewerVersionReader",
    "RedisViewerVersionWriter",
    "await_answer",
    "connect",
    "connect_async",
    "server_status",
]
