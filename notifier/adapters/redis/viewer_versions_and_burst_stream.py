"""Versions of viewers' facts, and the burst stream, in Redis."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from zlib import crc32

from redis.exceptions import ResponseError

from notifier.adapters.redis.cluster import AsyncClusterClient, ClusterClient
from notifier.adapters.redis.connect import AsyncClient, RedisClient
from notifier.adapters.redis.keys_checksums_lua_scripts import KeyKind, LuaScript
from notifier.adapters.redis.persistent_and_shared_connections import CommandWords
from notifier.adapters.redis.pipelined_calls import Command
from notifier.adapters.redis.version_lookup_connection import lookup_connection
from notifier.codec import pack, unpack
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import Poison
from notifier.domain.ids import UserId
from notifier.ports.inbox_cache_freshness import (
    PLACEHOLDER_TTL,
    REMEMBERED_VIEWER_TTL,
    VERSION_TTL,
    BurstStreamPosition,
    RememberedViewer,
    Scope,
    VersionLookup,
)
from notifier.ports.live_bus import MissedUpdates

BURST_STREAM_KEY = KeyKind.BURST_STREAM.key()
STREAM_LENGTH = 4_000
"""About 4 MB of entries. A process that needs older entries reloads from the store."""
MAX_STREAM_ENTRIES = 1_000
"""Maximum number of entries that a look-up returns. With more, the process reloads from the store, at less cost."""
HASH_TAG_COUNT = 32
"""In a cluster, one command reaches all versions with the same hash tag."""

_BURST, _MISSED, _ANCHOR = b"b", b"m", b"a"
"""Field of a stream entry: a burst, missed updates, or an anchor that gives an empty stream a first position."""
_VERSION_SIGN, _CHANGING_SIGN = b"=", b"~"
"""First byte of a version key's value: a version follows, or the names of the changes in progress."""
_MILLISECOND = timedelta(milliseconds=1)
_CHECKSUM_BYTES = 4
"""Size of a CRC-32 in bytes."""


def stream_entry(live_message: Burst | MissedUpdates) -> Command:
    """Return the command that appends a live message to the stream of published bursts."""
    fields = {_MISSED: b""} if isinstance(live_message, MissedUpdates) else {_BURST: pack(live_message)}
    return Command("xadd", BURST_STREAM_KEY, (fields,), {"maxlen": STREAM_LENGTH, "approximate": True})


def version_key(scope: Scope) -> str:
    return KeyKind.VIEWER_VERSION.key(f"{{{crc32(scope.encode()) % HASH_TAG_COUNT}}}", scope)


def viewer_key(user: UserId) -> str:
    return KeyKind.REMEMBERED_VIEWER.key(user)


class RedisViewerVersionWriter:
    """Version changes for synchronous code. Thread-safe."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._is_cluster = is_cluster_client(client)

    def begin(self, scopes: Collection[Scope], change: str) -> None:
        self._send(_begin_calls(_grouped(scopes, is_cluster=self._is_cluster), change))

    def finish(self, scopes: Collection[Scope], change: str) -> None:
        self._send(_finish_calls(_grouped(scopes, is_cluster=self._is_cluster), change))

    def _send(self, calls: Iterable[Sequence[Any]]) -> None:
        with self._client.guarded(), self._client.pipeline(transaction=False) as pipe:
            for call in calls:
                pipe.eval(*call)
            _checked_answers(self._client, pipe.execute())


class RedisViewerVersionReader:
    """Look-ups and changes of versions for one event loop, one look-up at a time."""

    def __init__(self, client: AsyncClient, timeout: timedelta) -> None:
        self._client = client
        self._is_cluster = is_cluster_client(client)
        self._lookup_connection = lookup_connection(client, timeout.total_seconds())

    async def look_up(
        self, scopes: Collection[Scope], after: BurstStreamPosition | None, users: Collection[UserId] = ()
    ) -> VersionLookup:
        groups = _grouped(scopes, is_cluster=self._is_cluster)
        commands: list[CommandWords] = [("mget", *map(version_key, group)) for group in groups]
        commands += [("get", viewer_key(user)) for user in users]
        newest_entry_command = ("xrevrange", BURST_STREAM_KEY, "+", "-", "COUNT", 1)
        commands.append(
            newest_entry_command
            if after is None
            else ("xrange", BURST_STREAM_KEY, after.partition("/")[0], "+", "COUNT", MAX_STREAM_ENTRIES + 1)
        )
        with self._client.guarded():
            *answers, entries = await self._lookup_connection.execute(commands)
            if isinstance(entries, ResponseError) and "WRONGTYPE" in str(entries):
                self._client.garbage.add(KeyKind.BURST_STREAM)
                await self._client.delete(BURST_STREAM_KEY)  # the key holds garbage: publishers create the stream again
            for answer in (*answers, entries):
                if isinstance(answer, Exception) and "WRONGTYPE" not in str(answer):
                    raise answer
            if isinstance(entries, Exception):
                raise entries
            remembered = self._read_remembered(users, answers[len(groups) :])
            if after is None and not entries:
                entries = [(await self._client.xadd(BURST_STREAM_KEY, {_ANCHOR: b""}), (_ANCHOR, b""))]
        bursts, position = ((), _position(entries[-1])) if after is None else _read_stream(entries, after)
        versions, changing = _read_versions(groups, answers[: len(groups)])
        return VersionLookup(
            versions=versions,
            changing=changing,
            published=bursts,
            position=position,
            remembered=remembered,
            server_state=self._lookup_connection.server_state,
        )

    async def remember(self, viewer: RememberedViewer) -> None:
        with self._client.guarded():
            key, value, ttl = (
                viewer_key(viewer.viewer.user),
                _with_checksum(pack(viewer)),
                REMEMBERED_VIEWER_TTL // _MILLISECOND,
            )
            if self._client.shared_connection is not None:
                [answer] = await self._client.shared_connection.execute([("set", key, value, "px", ttl)])
                if isinstance(answer, Exception):
                    raise answer
            else:
                await self._client.set(key, value, px=ttl)

    async def close(self) -> None:
        await self._lookup_connection.close()

    def _read_remembered(
        self, users: Collection[UserId], answers: Sequence[object]
    ) -> Mapping[UserId, RememberedViewer]:
        """Return the valid viewers. Garbage counts as absent; the next call of `remember` overwrites it."""
        viewers = dict[UserId, RememberedViewer]()
        for user, value in zip(users, answers, strict=True):
            if value is None:
                continue
            try:
                viewer = unpack(RememberedViewer, _verified_value(value)) if isinstance(value, bytes) else None
            except Poison:
                viewer = None
            if viewer is not None and viewer.viewer.user == user:
                viewers[user] = viewer
            else:
                self._client.garbage.add(KeyKind.REMEMBERED_VIEWER)
        return viewers

    async def insert_versions(self, scopes: Collection[Scope], version: str) -> VersionLookup:
        groups = _grouped(scopes, is_cluster=self._is_cluster)
        answers = [values for _, values in await self._send(_insert_calls(groups, version))]
        versions, changing = _read_versions(groups, answers)
        return VersionLookup(versions=versions, changing=changing)

    async def begin(self, scopes: Collection[Scope], change: str) -> None:
        await self._send(_begin_calls(_grouped(scopes, is_cluster=self._is_cluster), change))

    async def finish(self, scopes: Collection[Scope], change: str) -> None:
        await self._send(_finish_calls(_grouped(scopes, is_cluster=self._is_cluster), change))

    async def _send(self, calls: Iterable[Sequence[Any]]) -> list[Any]:
        with self._client.guarded():
            if self._client.shared_connection is not None:
                return _checked_answers(
                    self._client, await self._client.shared_connection.execute([("eval", *call) for call in calls])
                )
            async with self._client.pipeline(transaction=False) as pipe:
                for call in calls:
                    pipe.eval(*call)
                return _checked_answers(self._client, await pipe.execute())


def _with_checksum(value: bytes) -> bytes:
    """Prefix the value with a checksum.

    Some parts of the value are decoded late or never, so decoding alone would not detect garbage.
    """
    return crc32(value).to_bytes(_CHECKSUM_BYTES, "big") + value


def _verified_value(checked_value: bytes) -> bytes:
    """Verify and remove the checksum. Raises Poison."""
    value = checked_value[_CHECKSUM_BYTES:]
    if checked_value[:_CHECKSUM_BYTES] != crc32(value).to_bytes(_CHECKSUM_BYTES, "big"):
        raise Poison("The stored facts of a viewer are damaged.")
    return value


# The scripts are short, and sent as text: after a call by digest, a restarted server would need a second round trip.
_BEGIN_CHANGE, _FINISH_CHANGE, _INSERT_VERSIONS = (
    LuaScript.load("begin_viewer_facts_change"),
    LuaScript.load("finish_viewer_facts_change"),
    LuaScript.load("insert_viewer_versions"),
)


def is_cluster_client(client: object) -> bool:
    return isinstance(client, ClusterClient | AsyncClusterClient)


ScopeGroup = Sequence[Scope]
"""Scopes whose keys one command can reach."""


def _grouped(scopes: Collection[Scope], *, is_cluster: bool) -> Sequence[ScopeGroup]:
    """Group the scopes: by hash tag in a cluster, otherwise into one group."""
    if not is_cluster:
        return [[*scopes]] if scopes else []
    groups = defaultdict[str, list[Scope]](list)
    for scope in scopes:
        groups[version_key(scope).partition("}")[0]].append(scope)
    return [*groups.values()]


def _begin_calls(groups: Iterable[ScopeGroup], change: str) -> Iterable[Sequence[Any]]:
    return (_call(_BEGIN_CHANGE, group, change, PLACEHOLDER_TTL) for group in groups)


def _finish_calls(groups: Iterable[ScopeGroup], change: str) -> Iterable[Sequence[Any]]:
    return (_call(_FINISH_CHANGE, group, change, PLACEHOLDER_TTL) for group in groups)


def _insert_calls(groups: Iterable[ScopeGroup], version: str) -> Iterable[Sequence[Any]]:
    return (_call(_INSERT_VERSIONS, group, version, VERSION_TTL) for group in groups)


def _call(script: LuaScript, group: ScopeGroup, name: str, ttl: timedelta) -> Sequence[Any]:
    return script.text, len(group), *map(version_key, group), name, ttl // _MILLISECOND


def _checked_answers(client: RedisClient | AsyncClient, answers: list[Any]) -> list[Any]:
    """Return the answers of version scripts, and count the garbage that they replaced. Raises the first error."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    client.garbage.add(KeyKind.VIEWER_VERSION, sum(garbage for garbage, *_ in answers))
    return answers


def _read_versions(
    groups: Sequence[ScopeGroup], answers: Sequence[Sequence[object]]
) -> tuple[Mapping[Scope, str], Collection[Scope]]:
    """Return the versions of scopes, and the scopes that are being changed.

    A scope with garbage counts as having no version. The next script that changes the scope replaces and counts the
    garbage.
    """
    versions, changing = dict[Scope, str](), set[Scope]()
    for scopes, values in zip(groups, answers, strict=True):
        for scope, value in zip(scopes, values, strict=True):
            if not isinstance(value, bytes):
                continue
            if value[:1] == _VERSION_SIGN:
                versions[scope] = value[1:].decode("latin-1")
            elif value[:1] == _CHANGING_SIGN:
                changing.add(scope)
    return versions, changing


def _read_stream(
    entries: Sequence[Any], after: BurstStreamPosition
) -> tuple[Sequence[Burst] | None, BurstStreamPosition | None]:
    """Return the bursts after the position, and the new position.

    The bursts are None if there are too many, or if some may be missing: after an entry for missed updates, after
    garbage, or if the entry at `after` is gone, because then later entries may be gone, too.
    """
    if not entries or _position(entries[0]) != after or len(entries) > MAX_STREAM_ENTRIES:
        return None, None
    bursts = list[Burst]()
    for _, flat_fields in entries[1:]:
        fields = dict(zip(flat_fields[::2], flat_fields[1::2], strict=True))
        try:
            if _BURST in fields:
                bursts.append(unpack(Burst, fields[_BURST]))
            elif _ANCHOR not in fields:
                return None, _position(entries[-1])
        except Poison:
            return None, _position(entries[-1])
    return bursts, _position(entries[-1])


def _position(entry: Sequence[Any]) -> BurstStreamPosition:
    """Return the entry's id and a checksum of its content.

    The id alone is not enough: a stream that was wiped may assign the same id again within a millisecond.
    """
    id, flat_fields = entry
    return BurstStreamPosition(f"{id.decode('latin-1')}/{crc32(b''.join(flat_fields)):x}")
