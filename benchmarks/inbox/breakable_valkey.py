"""The benchmark's own Valkey for the product, which cases stop, empty or fill with garbage."""

import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Self

import redis

from notifier.devkit.engines.engine_process import Engine, free_port
from notifier.devkit.engines.valkey import HOST, server

GARBLE_INTERVAL_SECONDS = 0.02
"""Seconds between two overwritten keys."""
GARBAGE_BYTES = 24
"""Bytes of garbage per write."""


@dataclass(slots=True, kw_only=True)
class BenchCache:
    """A Valkey that `notifier up` does not start or restart, so that it stays down for as long as a case needs."""

    engine: Engine
    url: str

    @classmethod
    def started(cls, folder: Path) -> Self:
        password, port = secrets.token_hex(16), free_port(HOST)
        cache = cls(engine=server(folder, port=port, password=password), url=f"redis://:{password}@{HOST}:{port}/0")
        cache.start()
        return cache

    def start(self) -> None:
        """Start it empty and wait until it answers."""
        self.engine.start()
        self.engine.wait_until_ready()

    def stop(self) -> None:
        """Kill it. From now on every connection is refused."""
        self.engine.kill()

    def flush(self) -> None:
        """Empty the product's database. Celery's queues are in others."""
        with redis.Redis.from_url(self.url) as client:
            client.flushdb()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def garbled(self, seed: int) -> Iterator[None]:
        """Write random bytes into random keys during the block, then empty the database."""
        is_over = Event()
        thread = Thread(target=self._garble, args=(is_over, random.Random(seed)), name="garbage", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            self.flush()

    def _garble(self, is_over: Event, random_: random.Random) -> None:
        with redis.Redis.from_url(self.url) as client:
            while not is_over.wait(GARBLE_INTERVAL_SECONDS):
                if isinstance(key := client.randomkey(), bytes):
                    with suppress(redis.RedisError):
                        spoil(client, key, random_)


def spoil(client: "redis.Redis", key: bytes, random_: random.Random) -> None:
    """Put garbage into a field of a hash, into a member of a sorted set, or in place of the whole value."""
    garbage = random_.randbytes(GARBAGE_BYTES)
    match client.type(key):
        case b"hash":
            fields = client.hkeys(key)
            client.hset(key, random_.choice(fields) if isinstance(fields, list) and fields else garbage, garbage)
        case b"zset" if random_.random() < 0.5:
            client.zadd(key, {garbage: random_.random()})
        case _:
            client.set(key, garbage)
