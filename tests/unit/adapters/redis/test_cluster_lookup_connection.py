"""Redis cluster lookups report a new connection when the slot map changes."""

import asyncio
from typing import Any, cast

from notifier.adapters.redis.cluster import AsyncClusterClient
from notifier.adapters.redis.multi_host_address import Host
from notifier.adapters.redis.version_lookup_connection import ClusterLookupConnection


class EmptySlotMap:
    """A slot map that routes no command."""

    def grouped_by_host(self, _: object) -> dict[Host, list[int]]:
        return {}


class FakeClient:
    def __init__(self) -> None:
        self.cached_slot_map = EmptySlotMap()

    async def slot_map(self) -> EmptySlotMap:
        return self.cached_slot_map


def test_new_map_counts_as_a_new_server_state() -> None:
    """A node that gets its slots back may lack writes that another node took in the meantime."""

    async def connection_counts() -> list[int]:
        client = FakeClient()
        connection, counts = ClusterLookupConnection(cast(AsyncClusterClient, cast(Any, client)), 1.0), list[int]()
        for renewed in (False, False, True, False):
            if renewed:
                client.cached_slot_map = EmptySlotMap()
            await connection.execute([])
            counts.append(connection.server_state)
        return counts

    assert asyncio.run(connection_counts()) == [1, 1, 2, 2]
