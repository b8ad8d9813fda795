"""Small values in Redis: recent events, token buckets, backpressure, backlog report."""

from collections.abc import Collection, Mapping
from datetime import timedelta

from notifier.adapters.redis.connect import RedisClient
from notifier.adapters.redis.keys_checksums_lua_scripts import CHECKSUM_FILE, KeyKind, LuaScript, unwrap, wrap
from notifier.adapters.redis.pipelined_calls import Command, RedisValue, ScriptCall, discard_call, run_calls
from notifier.codec import pack, unpack
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.delivery.dispatch_backlog import PoolBacklog
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import Poison
from notifier.domain.token_bucket import BucketLimit

RECENT_EVENTS_TTL = timedelta(hours=24)
"""Upstream services usually repeat an event within minutes. The store recognizes later repeats, but more slowly."""


class RedisRecentEvents:
    def __init__(self, client: RedisClient) -> None:
        self._client = client

    def content_hashes(self, events: Collection[EventId]) -> Mapping[EventId, str]:
        by_key = {_event_key(event): event for event in events}
        return {by_key[key]: value.decode() for key, value in self._read(list(by_key)).items()}

    def remember(self, hashes: Mapping[EventId, str]) -> None:
        hashes_by_key = {_event_key(event): content_hash.encode() for event, content_hash in hashes.items()}
        id_keys = dict.fromkeys(_event_id_key(event.id) for event in hashes)
        taken_keys = self._set_absent(hashes_by_key, [_set_command(key, b"1") for key in id_keys])
        # A taken key holds the hash of the first content that was accepted, or garbage. Reading deletes the garbage.
        values = self._read(taken_keys)
        if freed := {key: hashes_by_key[key] for key in taken_keys if key not in values}:
            self._set_absent(freed, [])

    def was_accepted(self, source: str | None, id: str) -> bool:
        return bool(self._read([_event_id_key(id) if source is None else _event_key(EventId(source, id))]))

    def _set_absent(self, values: Mapping[str, bytes], other_commands: list[Command]) -> list[str]:
        """Set the absent keys, and return the keys that already held a value.

        `other_commands` share the round trip.
        """
        new = [_set_command(key, value, nx=True) for key, value in values.items()]
        answers = run_calls(self._client, [*new, *other_commands])
        return [key for key, done in zip(values, answers[: len(values)], strict=True) if not done]

    def _read(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """Return the values by key, without absent keys. Garbage is deleted."""
        stored = dict(zip(keys, run_calls(self._client, [Command("get", key) for key in keys]), strict=True))
        values = {key: unwrap(key, packed) for key, packed in stored.items() if packed is not None}
        if garbage := [key for key, value in values.items() if value is None]:
            run_calls(self._client, [discard_call(key, {"": stored[key]}) for key in garbage])
        return {key: value for key, value in values.items() if value is not None}


class RedisTokenBuckets:
    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._script = LuaScript.load(CHECKSUM_FILE, "token_bucket")

    def take(self, name: str, limit: BucketLimit) -> bool:
        [tokens_left] = run_calls(self._client, [self._call(name, limit, 1, max_debt=0)])
        return tokens_left is not None

    def spend(self, spent: Mapping[str, int], limit: BucketLimit) -> Mapping[str, float]:
        calls = [self._call(name, limit, count, max_debt=limit.capacity) for name, count in spent.items()]
        return {
            name: float(tokens_left) for name, tokens_left in zip(spent, run_calls(self._client, calls), strict=True)
        }

    def _call(self, name: str, limit: BucketLimit, count: int, *, max_debt: int) -> ScriptCall:
        refill = limit.refill / timedelta(milliseconds=1)
        return ScriptCall(self._script, KeyKind.TOKEN_BUCKET.key(name), (limit.capacity, refill, count, max_debt))


class RedisBackpressure:
    def __init__(self, client: RedisClient) -> None:
        self._value = RedisValue(client, KeyKind.BACKPRESSURE.key())

    def set_level(self, level: float, ttl: timedelta) -> None:
        self._value.set(str(level).encode(), ttl)

    def level(self) -> float:
        value = self._value.get()
        return float(value) if value is not None else 0.0


class RedisBacklogReport:
    def __init__(self, client: RedisClient) -> None:
        self._value = RedisValue(client, KeyKind.BACKLOG.key())

    def publish(self, backlogs: Mapping[Pool, PoolBacklog], ttl: timedelta) -> None:
        self._value.set(pack(dict(backlogs)), ttl)

    def read(self) -> Mapping[Pool, PoolBacklog]:
        value = self._value.get()
        try:
            return unpack(dict[Pool, PoolBacklog], value) if value is not None else {}
        except Poison:  # written by another version: fail open, as if nothing had been reported
            return {}


def _set_command(key: str, value: bytes, *, nx: bool = False) -> Command:
    return Command("set", key, (wrap(key, value),), {"nx": nx, "ex": RECENT_EVENTS_TTL})


def _event_key(event: EventId) -> str:
    # Prefix the id with its length, so that no other pair of source and id has the same key.
    return KeyKind.RECENT_EVENT.key(len(event.id), event.id, event.source)


def _event_id_key(id: str) -> str:
    return KeyKind.RECENT_EVENT_ID.key(id)
