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
    def connections(self) -> int:
        """Number that changes with every new connection: the server behind it may be a new primary after a failover."""
        ...

    async def execute(self, commands: Sequence[Command]) -> list[Any]:
        """Send the commands and return their answers; a server error takes the place of its answer.

        Raises RedisError if no answer arrives in time.
        """
        ...

    async def close(self) -> None: ...


class ClusterConnections:
    """Look-ups in a cluster, over one connection to each node."""

    def __init__(self, client: AsyncClusterClient, within: float) -> None:
        self._client = client
        self._within = within
        self._nodes: dict[Host, PersistentConnection] = {}
        self._map: SlotMap | None = None
        self._maps = 0

    @property
    def connections(self) -> int:
        """Number that changes with every new connection or cluster map.

        A node that regains slots may be asked over an old connection, so connections alone are not enough.
        """
        return self._maps + sum(node.connections for node in self._nodes.values())

    async def execute(self, commands: Sequence[Command]) -> list[Any]:
        result = await self._client.slot_map()
        if result is not self._map:
            self._map = result
            self._maps += 1
        indexes_by_host = result.grouped_by_host([(name, tuple(arguments), {}) for name, *arguments in commands])
        answers: list[Any] = [None] * len(commands)

        async def ask_node(host: Host, places: Sequence[int]) -> None:
            result = await self._node(host).execute([commands[place] for place in places])
            for place, answer in zip(places, result, strict=True):
                answers[place] = answer

        # Await all, even if one fails: only one task at a time may use a node's connection.
        for error in await asyncio.gather(
            *(ask_node(*group) for group in indexes_by_host.items()), return_exceptions=True
        ):
            if error:
                raise error
        return answers

    async def close(self) -> None:
        for node in self._nodes.values():
            await node.close()

    def _node(self, host: Host) -> PersistentConnection:
        if host not in self._nodes:
            self._nodes[host] = PersistentConnection(self._client.node(host).connection_pool, self._within)
        return self._nodes[host]


def exchange(client: object, within: float) -> RedisExchange:
    """Return an exchange with the servers of an AsyncClient or AsyncClusterClient."""
    if isinstance(client, AsyncClusterClient):
        return ClusterConnections(client, within)
    assert isinstance(client, AsyncClient)
    return PersistentConnection(client.connection_pool, within)
