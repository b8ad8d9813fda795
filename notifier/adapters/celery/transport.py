"""Kombu's transport for Redis, which survives garbage in the broker's keys.

Kombu takes every key for what it wrote itself: a queue or a list of held tasks of another type ends each worker at its
first task, and a queue refuses every task, for as long as the key stands. Here such a key is deleted, and what is no
task is passed over. The ledger queues again whatever was lost with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from queue import Empty
from typing import Any

from kombu.transport import redis, virtual
from kombu.utils.json import loads
from prometheus_client import Counter
from redis import Redis
from redis.exceptions import ResponseError

Untyped = Callable[..., Any]
"""Of kombu, which has no types."""

OPTION = "broker_keys"
"""The transport option that holds the BrokerKeys."""

HELD: Mapping[str, str] = {"unacked": "hash", "unacked_index": "zset", "unacked_mutex": "string"}
"""The keys in which kombu notes the tasks that workers hold, with their Redis types."""

MUTEX = "unacked_mutex"
NO_END = -1
"""What PTTL answers for a key that never expires."""

TASK = "notifier.slice"
"""The one task there is."""

HEADERS: Mapping[str, object] = {
    "task": TASK,
    "lang": "py",
    "eta": None,
    "expires": None,
    "group": None,
    "retries": 0,
    "timelimit": [None, None],
}
"""What CeleryQueue sends with every task; another value would have a worker do something else than run it."""

DELIVERY = ("exchange", "routing_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerKeys:
    """The keys of one pool's database, by name with their Redis types."""

    types: Mapping[str, str]
    garbage: Counter | None
    """None in a process whose metrics nobody reads."""

    @classmethod
    def of(cls, queues: tuple[str, ...], garbage: Counter | None) -> "BrokerKeys":
        return cls(types={**HELD, **dict.fromkeys(queues, "list")}, garbage=garbage)

    def tidy(self, client: Any) -> None:
        """Delete the keys of a wrong type, and a mutex that would never end."""
        with client.pipeline(transaction=False) as pipe:
            for key in self.types:
                pipe.type(key)
            pipe.pttl(MUTEX)
            *found, ends = pipe.execute()
        looked = zip(self.types.items(), (held.decode() for held in found), strict=True)
        garbled = [key for (key, type), held in looked if held not in (type, "none")]
        if ends == NO_END and MUTEX not in garbled:
            garbled.append(MUTEX)
        for key in garbled:
            client.unlink(key)
        self.count(len(garbled))

    def count(self, times: int = 1) -> None:
        if self.garbage is not None and times:
            self.garbage.labels("queue").inc(times)


class TaskClient(Redis):
    """A client whose BRPOP passes over what is no task."""

    def __init__(self, is_task: Callable[[bytes], bool], **options: Any) -> None:
        super().__init__(**options)
        self._is_task = is_task

    def parse_response(self, connection: Any, command_name: str, **options: Any) -> Any:
        answer = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call] # redis-py's own
        if command_name == "BRPOP" and answer and not self._is_task(answer[1]):
            return None
        return answer


class TidyQoS(redis.QoS):
    """Notes which tasks are held. Each step is done again once its keys were tidied."""

    def append(self, message: Any, delivery_tag: str) -> None:
        self._tidied(super().append, message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        self._tidied(super().ack, delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self._tidied(super().reject, delivery_tag, requeue)

    def restore_visible(self, *given: Any, **named: Any) -> None:
        # Called every ten seconds. A mutex of garbage would keep it from restoring anything, without an error.
        self.channel.tidy()
        self._tidied(super().restore_visible, *given, **named)

    def restore_by_tag(self, tag: Any, *given: Any, **named: Any) -> None:
        try:
            self._tidied(super().restore_by_tag, tag, *given, **named)
        except (ValueError, TypeError):  # what is held under the tag is no task
            self.channel.broker_keys.count()
            forget: Untyped = self._remove_from_indices
            forget(tag).execute()

    def _tidied(self, step: Callable[..., Any], *given: Any, **named: Any) -> None:
        try:
            step(*given, **named)
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self.channel.tidy()
            step(*given, **named)


class TidyChannel(redis.Channel):
    QoS = TidyQoS

    def __init__(self, *given: Any, **named: Any) -> None:
        usual: Untyped = super().__init__
        usual(*given, **named)
        # A client that failed opens a new channel, so this also mends what made it fail.
        self.tidy()

    @property
    def broker_keys(self) -> BrokerKeys:
        keys: BrokerKeys = self.connection.client.transport_options[OPTION]
        return keys

    def tidy(self) -> None:
        with self.conn_or_acquire() as client:
            self.broker_keys.tidy(client)

    def _get_client(self) -> Any:
        usual: Untyped = super()._get_client
        usual()  # raises where the library is too old
        return partial(TaskClient, self._is_task)

    def _brpop_read(self, **options: Any) -> Any:
        usual: Untyped = super()._brpop_read
        try:
            return usual(**options)
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self.tidy()
            raise Empty from error

    def _is_task(self, item: bytes) -> bool:
        try:
            read: Untyped = loads
            message: Untyped = virtual.Message
            task = read(item.decode())
            known = is_task(task, message(task, channel=self))
        except Exception:  # whatever kombu stumbles over first
            known = False
        if not known:
            self.broker_keys.count()
        return known


class TidyTransport(redis.Transport):
    Channel = TidyChannel


def is_task(sent: Any, message: Any) -> bool:
    """Whether a message says what Celery says of a task that CeleryQueue sends: nothing else may reach a worker."""
    if (sent["content-type"], sent["content-encoding"]) != ("application/json", "utf-8"):
        return False
    (name,), named, _ = message.decode()
    headers, properties = sent["headers"], sent["properties"]
    addressed = (properties["delivery_info"][part] for part in DELIVERY)
    return (
        named == {}
        and all(isinstance(text, str) for text in (name, headers["id"], properties["delivery_tag"], *addressed))
        and all(headers[header] == value for header, value in HEADERS.items())
    )


def is_wrong_type(error: ResponseError) -> bool:
    return "WRONGTYPE" in str(error)
