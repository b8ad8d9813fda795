"""A look at a server, for whoever is asked whether it is as it must be; it changes nothing."""

import time
from dataclasses import dataclass
from typing import Any

from notifier.adapters.redis.connect import connect


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    name: str
    """`redis` or `valkey`."""
    version: str
    policy: str
    """What it does when it is full."""
    ahead: float
    """Seconds of its clock before ours, less what the way of the answer may have made of them."""


def look(url: str) -> Server:
    """Raises CacheUnavailable, and BadSetting."""
    client = connect(url)
    try:
        with client.answered():
            info: Any = client.info()
            before = time.time()
            seconds, micros = client.time()
            after = time.time()
    finally:
        client.close()
    theirs = seconds + micros / 1_000_000
    return Server(
        name=str(info.get("server_name", "redis")),
        version=str(info.get("valkey_version", info.get("redis_version", "0"))),
        policy=str(info.get("maxmemory_policy", "")),
        ahead=theirs - min(max(theirs, before), after),
    )
