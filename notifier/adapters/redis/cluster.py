"""The clients of a Redis cluster: every command has one key, and goes to the node that holds it.

Redis-py's own cluster client sends a command again when no answer came, one by one when it was a pipeline: a token
would be taken twice, and a hung node would cost seconds. Here nothing is sent twice and each call waits once. Who is
sent to the wrong node, or gets no answer, does without this time, and the map of the cluster is read anew by the next
call. What a slot holds while it moves is out of reach for that moment; everybody who asks can do without.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import Any, Self

import redis
from redis.crc import key_slot
from redis.exceptions import RedisError, ResponseError

from notifier.adapters.redis.address import Host, Several
from notifier.adapters.redis.keys import GarbageCount
from notifier.adapters.redis.node import (
    READERS,
    TIMEOUT,
    AsyncClient,
    RedisBreaker,
    RedisClient,
    RedisConnectionPool,
    patience,
    patience_async,
)

SLOTS = 16384

SCRIPTS = {"eval", "evalsha"}

KEYLESS = {"publish": 0, "ping": 0, "info": 0, "time": 0}
"""All words go to one node, the one of slot 0, where they are also listened to: between two nodes they would lose the
order in which a publisher said them. A cluster tells every node of every word, so any other would hear them, too."""

Command = tuple[str, tuple[Any, ...], dict[str, Any]]


def slot_of(command: str, given: Sequence[Any]) -> int:
    if command in KEYLESS:
        return KEYLESS[command]
    # EVALSHA digest 1 key …, EVAL script 1 key …; all others begin with their key, and have but one.
    key = given[2] if command in SCRIPTS else given[0]
    return key_slot(key.encode() if isinstance(key, str) else key)


class Map:
    """Which node holds which slot."""

    def __init__(self, said: Sequence[Any], asked: Host) -> None:
        self._holders: list[Host | None] = [None] * SLOTS
        for first, last, (host, port, *_), *_ in said:
            # A node that doesn't know its own name is the one that was asked.
            holder = (host.decode() if host else asked[0], int(port))
            self._holders[first : last + 1] = [holder] * (last + 1 - first)

    def holder(self, slot: int) -> Host:
        found = self._holders[slot]
        if found is None:
            raise ResponseError(f"No node holds slot {slot}.")
        return found

    def parted(self, commands: Sequence[Command]) -> dict[Host, list[int]]:
        """The places of the commands in the sequence, by who gets them."""
        found: dict[Host, list[int]] = {}
        for place, (name, given, _) in enumerate(commands):
            found.setdefault(self.holder(slot_of(name, given)), []).append(place)
        return found


class _Queued:
    """Commands in the order in which they were given."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given, **named: self.commands.append((name, given, named))


class _Mapped:
    """A map that is forgotten with the first sign that it is wrong."""

    def __init__(self, at: Several) -> None:
        self.at = at
        self.map: Map | None = None
        self.garbage = GarbageCount()
        self._breaker = RedisBreaker()

    @contextmanager
    def answered(self) -> Iterator[None]:
        with self._breaker.answered():
            try:
                yield
            except (RedisError, OSError):
                self.map = None
                raise


class Pipeline(_Queued):
    """Not a transaction: what one node refuses, another may have done."""

    def __init__(self, client: "ClusterClient") -> None:
        super().__init__()
        self._client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.commands = []

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """One node after the other. Raises at the first that doesn't answer: one time-out for all."""
        answers: list[Any] = [None] * len(self.commands)
        for host, places in self._client.mapped().parted(self.commands).items():
            with self._client.node(host).pipeline(transaction=False) as pipe:
                for place in places:
                    name, given, named = self.commands[place]
                    getattr(pipe, name)(*given, **named)
                for place, answer in zip(places, pipe.execute(raise_on_error), strict=True):
                    answers[place] = answer
        return answers


class ClusterClient(_Mapped):
    """Thread-safe. Connects at the first command; one breaker for all nodes, because most callers need several."""

    def __init__(self, at: Several) -> None:
        super().__init__(at)
        self._nodes: dict[Host, RedisClient] = {}
        self._lock = Lock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def asked(*given: Any, **named: Any) -> Any:
            return getattr(self.node(self.mapped().holder(slot_of(name, given))), name)(*given, **named)

        return asked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pipeline(self, transaction: bool) -> Pipeline:
        assert not transaction, "there is none over several nodes"
        return Pipeline(self)

    def pubsub(self) -> Any:
        return self.node(self.mapped().holder(KEYLESS["publish"])).pubsub()  # type: ignore[no-untyped-call] # as below

    def close(self) -> None:
        with self._lock:
            for one in self._nodes.values():
                one.close()
            self._nodes.clear()

    def node(self, host: Host) -> RedisClient:
        with self._lock:
            if host not in self._nodes:
                self._nodes[host] = RedisClient(host=host[0], port=host[1], **(patience() | self.at.options))
            return self._nodes[host]

    def mapped(self) -> Map:
        """Asks the hosts in turn, each for a time-out at most, when there is no map."""
        if (found := self.map) is not None:
            return found
        errors: list[Exception] = []
        for host in self.at.hosts:
            try:
                self.map = found = Map(self.node(host).execute_command("CLUSTER SLOTS"), host)  # type: ignore[no-untyped-call] # redis-py's own
            except (RedisError, OSError) as error:
                errors.append(error)
            else:
                return found
        raise errors[0]


class AsyncPipeline(_Queued):
    def __init__(self, client: "AsyncClusterClient") -> None:
        super().__init__()
        self._client = client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.commands = []

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """All nodes at once."""
        parted = (await self._client.mapped()).parted(self.commands)
        answers: list[Any] = [None] * len(self.commands)

        async def ask(host: Host, places: Sequence[int]) -> None:
            async with self._client.node(host).pipeline(transaction=False) as pipe:
                for place in places:
                    name, given, named = self.commands[place]
                    getattr(pipe, name)(*given, **named)
                for place, answer in zip(places, await pipe.execute(raise_on_error), strict=True):
                    answers[place] = answer

        # All are awaited, also when one fails: none asks on while its connection is given to somebody else.
        for failed in await asyncio.gather(*(ask(*one) for one in parted.items()), return_exceptions=True):
            if failed:
                raise failed
        return answers


class AsyncClusterClient(_Mapped):
    """Each node with a line of its own, in which readers wait for a connection."""

    def __init__(self, at: Several) -> None:
        super().__init__(at)
        self._nodes: dict[Host, AsyncClient] = {}
        self.shared = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def asked(*given: Any, **named: Any) -> Any:
            return await getattr(self.node((await self.mapped()).holder(slot_of(name, given))), name)(*given, **named)

        return asked

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def pipeline(self, transaction: bool) -> AsyncPipeline:
        assert not transaction, "there is none over several nodes"
        return AsyncPipeline(self)

    @asynccontextmanager
    async def pubsub(self) -> AsyncGenerator[Any, None]:
        with self.answered():
            node = self.node((await self.mapped()).holder(KEYLESS["publish"]))
        async with node.pubsub() as listening:
            yield listening

    async def aclose(self) -> None:
        for one in self._nodes.values():
            await one.aclose()
        self._nodes.clear()

    def node(self, host: Host) -> AsyncClient:
        if host not in self._nodes:
            options = {"host": host[0], "port": host[1], **patience_async(), **self.at.options}
            if options.pop("ssl", False):
                options["connection_class"] = redis.asyncio.SSLConnection
            self._nodes[host] = AsyncClient.from_pool(
                RedisConnectionPool(max_connections=READERS, timeout=TIMEOUT, **options)
            )  # type: ignore[assignment] # a subclass's
        return self._nodes[host]

    async def mapped(self) -> Map:
        if (found := self.map) is not None:
            return found
        errors: list[Exception] = []
        for host in self.at.hosts:
            try:
                # By a connection that stands in no line and is gone afterwards: who only listens needs no other.
                async with AsyncClient(host=host[0], port=host[1], **(patience_async() | self.at.options)) as one:
                    self.map = found = Map(await one.execute_command("CLUSTER SLOTS"), host)  # type: ignore[no-untyped-call] # as above
            except (RedisError, OSError) as error:
                errors.append(error)
            else:
                return found
        raise errors[0]
