"""Look-ups in a Redis cluster: whoever compares versions notices that another server may have answered."""

import asyncio
from typing import Any, cast

from notifier.adapters.redis.address import Host
from notifier.adapters.redis.cluster import AsyncClusterClient
from notifier.adapters.redis.lookups import ClusterConnections


class Nowhere:
    """A map by which no command goes anywhere."""

    def parted(self, _: object) -> dict[Host, list[int]]:
        return {}


class Client:
    def __init__(self) -> None:
        self.map = Nowhere()

    async def mapped(self) -> Nowhere:
        return self.map


def test_new_map_counts_as_a_new_connection() -> None:
    """A node that gets its slots back may be asked on an old connection, and lack what another took meanwhile."""

    async def connections() -> list[int]:
        client = Client()
        exchange, found = ClusterConnections(cast(AsyncClusterClient, cast(Any, client)), 1.0), list[int]()
        for renewed in (False, False, True, False):
            if renewed:
                client.map = Nowhere()
            await exchange.ask([])
            found.append(exchange.connections)
        return found

    assert asyncio.run(connections()) == [1, 1, 2, 2]
