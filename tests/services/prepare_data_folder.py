"""Prepare a data folder on the shared engines, with its own keyspace."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from redis import Redis

from notifier.devkit.engines.fleet import EngineRecord


def prepare_folder(folder: Path, fleet: Mapping[str, EngineRecord], databases: Sequence[int]) -> Path:
    """Empty these databases of the shared Valkey, and write settings that use them.

    The first is for the service; each pool has one of the others.
    """
    urls = [urlunsplit(urlsplit(fleet["valkey"].url)._replace(path=f"/{number}")) for number in databases]
    for url in urls:
        with closing(Redis.from_url(url)) as redis:
            redis.flushdb()
    name = f"own_{uuid4().hex[:12]}"
    (folder / "services").mkdir()
    (folder / "services" / "settings.toml").write_text(f"""\
redis_url = "{urls[0]}"
[kafka]
servers = "{fleet["kafka"].address}"
prefix = "{name}."
[cassandra]
hosts = "{fleet["cassandra"].host}"
port = {fleet["cassandra"].port}
keyspace = "{name}"
replicas = 1
[brokers]
p0 = "{urls[1]}"
p1 = "{urls[2]}"
p2 = "{urls[3]}"
push_apns = "{urls[4]}"
push_fcm = "{urls[5]}"
push_web = "{urls[6]}"
""")
    return folder
