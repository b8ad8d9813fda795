"""Exchanges: look-ups that come one after another, on one connection to each server."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from notifier.adapters.redis.address import Host
from notifier.adapters.redis.cluster import AsyncClusterClient, Map
from notifier.adapters.redis.connect import AsyncClient
from notifier.adapters.redis.kept_connection import Command, OneConnection


class Exchange(Protocol):
    """For one event loop; to be used by one task at a time."""

    @property
    def connections(self) -> int:
        """Changes with every new connection: the server behind it may be one that took over from another."""
        ...

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Send the commands and return their answers; an error of the server takes its answer's place.

        Raises RedisError where no answer comes in time.
        """
        ...

    async def close(self) -> None: ...


class ClusterConnections:
    """One connection to each node of a cluster."""

    def __init__(self, client: AsyncClusterClient, within: float) -> None:
        self._client = client
        self._within = within
        self._nodes: dict[Host, OneConnection] = {}
        self._map: Map | None = None
        self._maps = 0

    @property
    def connections(self) -> int:
        """A new map counts as well: a node that gets slots back may be asked on a connection from before."""
        return self._maps + sum(node.connections for node in self._nodes.values())

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        found = await self._client.mapped()
        if found is not self._map:
            self._map = found
            self._maps += 1
        parted = found.parted([(name, tuple(given), {}) for name, *given in commands])
        answers: list[Any] = [None] * len(commands)

        async def ask_node(host: Host, places: Sequence[int]) -> None:
            found = await self._node(host).ask([commands[place] for place in places])
            for place, answer in zip(places, found, strict=True):
                answers[place] = answer

        # All are awaited, also when one fails: a node's connection is used by one task at a time.
        for failed in await asyncio.gather(*(ask_node(*one) for one in parted.items()), return_exceptions=True):
            if failed:
                raise failed
        return answers

    async def close(self) -> None:
        for node in self._nodes.values():
            await node.close()

    def _node(self, host: Host) -> OneConnection:
        if host not in self._nodes:
            self._nodes[host] = OneConnection(self._client.node(host).connection_pool, self._within)
        return self._nodes[host]


def exchange(client: object, within: float) -> Exchange:
    """An exchange with the server, or servers, of an AsyncClient or AsyncClusterClient."""
    if isinstance(client, AsyncClusterClient):
        return ClusterConnections(client, within)
    assert isinstance(client, AsyncClient)
    return OneConnection(client.connection_pool, within)
