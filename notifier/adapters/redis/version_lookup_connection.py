"""Connections for look-ups of viewer versions: one to each server."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import redis

from notifier.adapters.redis.cluster import AsyncClusterClient, SlotMap
from notifier.adapters.redis.connect import AsyncClient
from notifier.adapters.redis.multi_host_address import Host
from notifier.adapters.redis.persistent_and_shared_connections import CommandWords, PersistentConnection


class LookupConnection(Protocol):
    """Connection for look-ups, in one event loop. One task at a time may use it."""

    @property
    def server_state(self) -> int:
        """Number that increases when another server or a restarted one may answer."""
        ...

    async def execute(self, commands: Sequence[CommandWords]) -> list[Any]:
        """Send the commands and return their answers. The answer to a refused command is a ResponseError.

        Raises RedisError or OSError.
        """
        ...

    async def close(self) -> None: ...


class ClusterLookupConnection:
    """Connection for look-ups in a cluster: one connection to each node."""

    def __init__(self, client: AsyncClusterClient, timeout: float) -> None:
        self._client = client
        self._timeout = timeout
        self._nodes: dict[Host, PersistentConnection] = {}
        self._slot_map: SlotMap | None = None
        self._slot_map_count = 0
        self._is_closed = False

    @property
    def server_state(self) -> int:
        """Number of slot maps used and servers met so far.

        Slot maps count, because a slot may move to a node that is already connected.
        """
        return self._slot_map_count + sum(node.server_state for node in self._nodes.values())

    async def execute(self, commands: Sequence[CommandWords]) -> list[Any]:
        slot_map = await self._client.slot_map()
        if slot_map is not self._slot_map:
            self._slot_map = slot_map
            self._slot_map_count += 1
        indexes_by_host = slot_map.grouped_by_host([(name, tuple(arguments), {}) for name, *arguments in commands])
        answers: list[Any] = [None] * len(commands)

        async def send_to_node(host: Host, indexes: Sequence[int]) -> None:
            result = await self._node(host).execute([commands[index] for index in indexes])
            for index, answer in zip(indexes, result, strict=True):
                answers[index] = answer

        # Await all, even if one fails: only one task at a time may use a node's connection.
        for error in await asyncio.gather(
            *(send_to_node(*group) for group in indexes_by_host.items()), return_exceptions=True
        ):
            if error:
                raise error
        return answers

    async def close(self) -> None:
        self._is_closed = True
        for node in self._nodes.values():
            await node.close()

    def _node(self, host: Host) -> PersistentConnection:
        if self._is_closed:
            raise redis.ConnectionError("The connection was closed by its owner.")
        if host not in self._nodes:
            self._nodes[host] = PersistentConnection(
                self._client.node(host).connection_pool, self._timeout, identifies_server=True
            )
        return self._nodes[host]


def lookup_connection(client: object, timeout: float) -> LookupConnection:
    """Return a connection for look-ups to the servers of an AsyncClient or AsyncClusterClient."""
    if isinstance(client, AsyncClusterClient):
        return ClusterLookupConnection(client, timeout)
    assert isinstance(client, AsyncClient)
    return PersistentConnection(client.connection_pool, timeout, identifies_server=True)
