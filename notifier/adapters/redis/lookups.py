"""Sequential look-ups over one persistent connection to each server."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from notifier.adapters.redis.address import Host
from notifier.adapters.redis.cluster import AsyncClusterClient, SlotMap
from notifier.adapters.redis.connect import AsyncClient
from notifier.adapters.redis.kept_connection import Command, PersistentConnection


class RedisExchange(Protocol):
    """Look-ups of one event loop, used by one task at a time."""

    @property
    def connection_count(self) -> int:
        """Number that changes with every new connection, which may lead to a new primary after a failover."""
        ...

    async def execute(self, commands: Sequence[Command]) -> list[Any]:
        """Send the commands and return their answers; a server error takes the place of its answer.

        Raises RedisError if no answer arrives in time.
        """
        ...

    async def close(self) -> None: ...


class ClusterConnections:
    """Look-ups in a cluster, over one connection to each node."""

    def __init__(self, client: AsyncClusterClient, timeout: float) -> None:
        self._client = client
        self._timeout = timeout
        self._nodes: dict[Host, PersistentConnection] = {}
        self._map: SlotMap | None = None
        self._map_count = 0

    @property
    def connection_count(self) -> int:
        """Number that changes with every new connection or cluster map.

        The number of connections alone is not enough: a node that gets slots back may be asked over an old connection.
        """
        return self._map_count + sum(node.connection_count for node in self._nodes.values())

    async def execute(self, commands: Sequence[Command]) -> list[Any]:
        slot_map = await self._client.slot_map()
        if slot_map is not self._map:
            self._map = slot_map
            self._map_count += 1
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
        for node in self._nodes.values():
            await node.close()

    def _node(self, host: Host) -> PersistentConnection:
        if host not in self._nodes:
            self._nodes[host] = PersistentConnection(self._client.node(host).connection_pool, self._timeout)
        return self._nodes[host]


def create_exchange(client: object, timeout: float) -> RedisExchange:
    """Return an exchange with the servers of an AsyncClient or AsyncClusterClient."""
    if isinstance(client, AsyncClusterClient):
        return ClusterConnections(client, timeout)
    assert isinstance(client, AsyncClient)
    return PersistentConnection(client.connection_pool, timeout)
