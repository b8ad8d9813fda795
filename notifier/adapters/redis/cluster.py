"""Redis cluster clients that never resend a command.

The cluster client of redis-py resends commands that got no answer. A resent command could take a token of a rate limit
twice, and a hung node would cost seconds. Here a call that reaches the wrong node or gets no answer fails. Inside
`guarded` it also clears the cached slot map, so that the next call reads the map again.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import Any, Self

import redis
from redis.crc import key_slot
from redis.exceptions import RedisError, ResponseError

from notifier.adapters.redis.keys_checksums_lua_scripts import GarbageCount
from notifier.adapters.redis.multi_host_address import Host, MultiHostAddress
from notifier.adapters.redis.server_client import (
    MAX_CONNECTIONS,
    TIMEOUT,
    AsyncClient,
    RedisBreaker,
    RedisClient,
    RedisConnectionPool,
    timeout_options,
    timeout_options_async,
)

SLOT_COUNT = 16384

SCRIPT_COMMANDS = {"eval", "evalsha"}

KEYLESS_COMMAND_SLOTS = {"publish": 0, "ping": 0, "info": 0, "time": 0}
"""Slot that decides the node of a command without a key.

Messages that were published on two nodes would lose their order. A cluster forwards each message to all nodes, so
subscribers still receive messages after slot 0 has moved.
"""

QueuedCommand = tuple[str, tuple[Any, ...], dict[str, Any]]
"""Name of a method of redis-py, its positional arguments, and its keyword arguments."""


def slot_of(command: str, args: Sequence[Any]) -> int:
    if command in KEYLESS_COMMAND_SLOTS:
        return KEYLESS_COMMAND_SLOTS[command]
    # EVALSHA digest n key …, EVAL script n key …; all other commands begin with a key. A command has keys of one slot.
    key = args[2] if command in SCRIPT_COMMANDS else args[0]
    return key_slot(key.encode() if isinstance(key, str) else key)


class SlotMap:
    """Map from slots to the nodes that hold them."""

    def __init__(self, slot_ranges: Sequence[Any], asked_host: Host) -> None:
        """Create the map from the answer of `asked_host` to CLUSTER SLOTS."""
        self._holders: list[Host | None] = [None] * SLOT_COUNT
        for first_slot, last_slot, (host_name, port, *_), *_ in slot_ranges:
            # An empty host name means the node that was asked.
            holder = (host_name.decode() if host_name else asked_host[0], int(port))
            self._holders[first_slot : last_slot + 1] = [holder] * (last_slot + 1 - first_slot)

    def holder(self, slot: int) -> Host:
        host = self._holders[slot]
        if host is None:
            raise ResponseError(f"No node serves slot {slot}.")
        return host

    def grouped_by_host(self, commands: Sequence[QueuedCommand]) -> dict[Host, list[int]]:
        """Group the indexes of the commands by the host that receives them."""
        indexes: dict[Host, list[int]] = {}
        for index, (name, arguments, _) in enumerate(commands):
            indexes.setdefault(self.holder(slot_of(name, arguments)), []).append(index)
        return indexes


class _CommandBuffer:
    """Queued commands, in order."""

    def __init__(self) -> None:
        self.commands: list[QueuedCommand] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **options: self.commands.append((name, args, options))


class _SlotMapCache:
    """Base of the cluster clients: the cached slot map, and the circuit breaker."""

    def __init__(self, address: MultiHostAddress) -> None:
        self.address = address
        self.cached_slot_map: SlotMap | None = None
        self.garbage = GarbageCount()
        self._breaker = RedisBreaker()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        with self._breaker.guarded():
            try:
                yield
            except (RedisError, OSError):
                self.cached_slot_map = None
                raise


class ClusterPipeline(_CommandBuffer):
    """Pipeline over several nodes. It is not atomic: one node may execute its commands while another refuses."""

    def __init__(self, client: "ClusterClient") -> None:
        super().__init__()
        self._client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.commands = []

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send the commands to one node after another, and return the answers in order.

        Raises at the first node that does not answer: no further node is asked.
        """
        answers: list[Any] = [None] * len(self.commands)
        for host, indexes in self._client.slot_map().grouped_by_host(self.commands).items():
            with self._client.node(host).pipeline(transaction=False) as pipe:
                for index in indexes:
                    name, arguments, options = self.commands[index]
                    getattr(pipe, name)(*arguments, **options)
                for index, answer in zip(indexes, pipe.execute(raise_on_error), strict=True):
                    answers[index] = answer
        return answers


class ClusterClient(_SlotMapCache):
    """Thread-safe cluster client that connects at the first command.

    All nodes share one circuit breaker, because most callers need several nodes.
    """

    def __init__(self, address: MultiHostAddress) -> None:
        super().__init__(address)
        self._nodes: dict[Host, RedisClient] = {}
        self._lock = Lock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def send_to_holder(*args: Any, **kwargs: Any) -> Any:
            return getattr(self.node(self.slot_map().holder(slot_of(name, args))), name)(*args, **kwargs)

        return send_to_holder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pipeline(self, transaction: bool) -> ClusterPipeline:
        assert not transaction, "transactions are not possible across nodes"
        return ClusterPipeline(self)

    def pubsub(self) -> Any:
        return self.node(self.slot_map().holder(KEYLESS_COMMAND_SLOTS["publish"])).pubsub()  # type: ignore[no-untyped-call] # as below

    def close(self) -> None:
        with self._lock:
            for node in self._nodes.values():
                node.close()
            self._nodes.clear()

    def node(self, host: Host) -> RedisClient:
        with self._lock:
            if host not in self._nodes:
                self._nodes[host] = RedisClient(
                    host=host[0], port=host[1], **(timeout_options() | self.address.options)
                )
            return self._nodes[host]

    def slot_map(self) -> SlotMap:
        """Return the cached slot map. If there is none, ask one host after another until one answers."""
        if (current := self.cached_slot_map) is not None:
            return current
        errors: list[Exception] = []
        for host in self.address.hosts:
            try:
                self.cached_slot_map = current = SlotMap(self.node(host).execute_command("CLUSTER SLOTS"), host)  # type: ignore[no-untyped-call] # redis-py's own
            except (RedisError, OSError) as error:
                errors.append(error)
            else:
                return current
        raise errors[0]


class AsyncClusterPipeline(_CommandBuffer):
    def __init__(self, client: "AsyncClusterClient") -> None:
        super().__init__()
        self._client = client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.commands = []

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send the commands to their nodes concurrently, and return the answers in order."""
        indexes_by_host = (await self._client.slot_map()).grouped_by_host(self.commands)
        answers: list[Any] = [None] * len(self.commands)

        async def send_to_node(host: Host, indexes: Sequence[int]) -> None:
            async with self._client.node(host).pipeline(transaction=False) as pipe:
                for index in indexes:
                    name, arguments, options = self.commands[index]
                    getattr(pipe, name)(*arguments, **options)
                for index, answer in zip(indexes, await pipe.execute(raise_on_error), strict=True):
                    answers[index] = answer

        # Await all, even if one fails: a request must not continue while its connection is given to another task.
        for error in await asyncio.gather(
            *(send_to_node(*group) for group in indexes_by_host.items()), return_exceptions=True
        ):
            if error:
                raise error
        return answers


class AsyncClusterClient(_SlotMapCache):
    """Asynchronous cluster client with a connection pool for each node."""

    def __init__(self, address: MultiHostAddress) -> None:
        super().__init__(address)
        self._nodes: dict[Host, AsyncClient] = {}
        self._is_closed = False
        self.shared_connection = None  # one connection cannot reach all nodes

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def send_to_holder(*args: Any, **kwargs: Any) -> Any:
            return await getattr(self.node((await self.slot_map()).holder(slot_of(name, args))), name)(*args, **kwargs)

        return send_to_holder

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def pipeline(self, transaction: bool) -> AsyncClusterPipeline:
        assert not transaction, "transactions are not possible across nodes"
        return AsyncClusterPipeline(self)

    @asynccontextmanager
    async def pubsub(self) -> AsyncGenerator[Any, None]:
        with self.guarded():
            node = self.node((await self.slot_map()).holder(KEYLESS_COMMAND_SLOTS["publish"]))
        async with node.pubsub() as pubsub:
            yield pubsub

    async def aclose(self) -> None:
        self._is_closed = True
        for node in self._nodes.values():
            await node.aclose()
        self._nodes.clear()

    def node(self, host: Host) -> AsyncClient:
        if self._is_closed:
            raise redis.ConnectionError("The client was closed by its owner.")
        if host not in self._nodes:
            options = {"host": host[0], "port": host[1], **timeout_options_async(), **self.address.options}
            if options.pop("ssl", False):
                options["connection_class"] = redis.asyncio.SSLConnection
            self._nodes[host] = AsyncClient.from_pool(
                RedisConnectionPool(max_connections=MAX_CONNECTIONS, timeout=TIMEOUT, **options)
            )  # type: ignore[assignment] # annotated as the base class
        return self._nodes[host]

    async def slot_map(self) -> SlotMap:
        if (current := self.cached_slot_map) is not None:
            return current
        errors: list[Exception] = []
        for host in self.address.hosts:
            try:
                # A short-lived connection: one of the node's pool would stay open even if nothing else uses it.
                async with AsyncClient(
                    host=host[0], port=host[1], **(timeout_options_async() | self.address.options)
                ) as client:
                    self.cached_slot_map = current = SlotMap(await client.execute_command("CLUSTER SLOTS"), host)  # type: ignore[no-untyped-call] # redis-py's own
            except (RedisError, OSError) as error:
                errors.append(error)
            else:
                return current
        raise errors[0]
