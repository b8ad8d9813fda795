"""An account that crosses the threshold, on Kafka, Cassandra and Valkey."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
from redis import Redis

from notifier.config import Settings
from notifier.devkit.engines.fleet import EngineRecord
from notifier.profiles import choose
from tests.flow.celebrity_threshold_crossing import on_profile, require_no_gap

pytestmark = pytest.mark.timeout(400)

DATABASE = 15
"""Database of the shared Valkey."""


def test_lane_crossing_leaves_no_gap_on_cluster(tmp_path: Path, fleet: Mapping[str, EngineRecord]) -> None:
    url = urlunsplit(urlsplit(fleet["valkey"].url)._replace(path=f"/{DATABASE}"))
    with closing(Redis.from_url(url)) as redis:
        redis.flushdb()
    name = f"crossing_{uuid4().hex[:12]}"
    environment = {
        "NOTIFIER_PROFILE": "cluster",
        "NOTIFIER_DATA": str(tmp_path),
        "NOTIFIER_REDIS_URL": url,
        "NOTIFIER_KAFKA_SERVERS": fleet["kafka"].address,
        "NOTIFIER_KAFKA_PREFIX": f"{name}.",
        "NOTIFIER_CASSANDRA_HOSTS": fleet["cassandra"].host,
        "NOTIFIER_CASSANDRA_PORT": str(fleet["cassandra"].port),
        "NOTIFIER_CASSANDRA_KEYSPACE": name,
        "NOTIFIER_CASSANDRA_REPLICAS": "1",
    }
    environment |= {f"NOTIFIER_BROKERS_{pool}": url for pool in ("P0", "P1", "P2", "PUSH_APNS", "PUSH_FCM", "PUSH_WEB")}
    profile = choose(Settings.read(environment))
    with closing(profile):
        profile.migrate()
        profile.ensure_schema()
        crossing = on_profile(profile)
        crossing.run(rounds=1)
        require_no_gap(crossing)
