"""The small caches in Redis; one key a command, so that a cluster may put them anywhere."""

from collections.abc import Collection, Mapping
from datetime import timedelta

from notifier.adapters.redis.client import Client
from notifier.adapters.redis.scripts import Script
from notifier.codec import pack, unpack
from notifier.domain.backlog import Behind
from notifier.domain.errors import Poison
from notifier.domain.mention import EventId
from notifier.domain.slice import Pool

REMEMBERED = timedelta(hours=24)
"""An upstream that repeats an event does so within minutes; after that the store's dedupe answers, a little slower."""


class RedisRecent:
    def __init__(self, client: Client) -> None:
        self._client = client

    def digests(self, events: Collection[EventId]) -> Mapping[EventId, str]:
        asked = list(events)
        with self._client.answered(), self._client.pipeline(transaction=False) as pipe:
            for event in asked:
                pipe.get(_recent(event))
            found = pipe.execute()
        read = ((event, _text(said)) for event, said in zip(asked, found, strict=True) if said is not None)
        return {event: digest for event, digest in read if digest is not None}

    def remember(self, digests: Mapping[EventId, str]) -> None:
        with self._client.answered(), self._client.pipeline(transaction=False) as pipe:
            for event, digest in digests.items():
                pipe.set(_recent(event), digest, nx=True, ex=REMEMBERED)
                pipe.set(_recent_id(event.id), 1, ex=REMEMBERED)
            pipe.execute()

    def recall(self, source: str | None, id: str) -> bool:
        name = _recent_id(id) if source is None else _recent(EventId(source, id))
        with self._client.answered():
            return bool(self._client.exists(name))


class RedisBuckets:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._take = Script.named("take")
        self._spend = Script.named("spend")

    def take(self, name: str, capacity: int, refill: timedelta) -> bool:
        with self._client.answered():
            return bool(self._take(self._client, f"bucket:{name}", capacity, refill / timedelta(milliseconds=1)))

    def spend(self, spent: Mapping[str, int], capacity: int, refill: timedelta) -> Mapping[str, float]:
        every = refill / timedelta(milliseconds=1)
        calls = [(f"bucket:{name}", (capacity, every, count)) for name, count in spent.items()]
        with self._client.answered():
            # Of a cluster where one node alone has forgotten the script the others take twice: once in a node's life.
            found = self._spend.each(self._client, calls)
        return {name: float(left) for name, left in zip(spent, found, strict=True)}


class RedisPressure:
    def __init__(self, client: Client) -> None:
        self._client = client

    def raise_to(self, level: float, lasting: timedelta) -> None:
        with self._client.answered():
            self._client.set("pressure", level, px=lasting)

    def level(self) -> float:
        with self._client.answered():
            found = self._client.get("pressure")
        return _level(found) if isinstance(found, bytes) else 0.0


class RedisBacklogReport:
    def __init__(self, client: Client) -> None:
        self._client = client

    def tell(self, behind: Mapping[Pool, Behind], lasting: timedelta) -> None:
        with self._client.answered():
            self._client.set("backlog", pack(dict(behind)), px=lasting)

    def told(self) -> Mapping[Pool, Behind]:
        with self._client.answered():
            found = self._client.get("backlog")
        try:
            return unpack(dict[Pool, Behind], found) if isinstance(found, bytes) else {}
        except Poison:  # fails open, as if nobody had told anything
            return {}


def _level(said: bytes) -> float:
    try:
        level = float(said)
    except ValueError:  # fails open, as if the monitor had said nothing
        return 0.0
    return level if 0 <= level <= 1 else 0.0


def _text(said: bytes) -> str | None:
    try:
        return said.decode()
    except UnicodeDecodeError:  # fails open, as if the event had not come before
        return None


def _recent(event: EventId) -> str:
    # The id comes first and its length is said, so that no other pair of source and id has the same name.
    return f"recent:{len(event.id)}:{event.id}:{event.source}"


def _recent_id(id: str) -> str:
    return f"recent-id:{id}"
