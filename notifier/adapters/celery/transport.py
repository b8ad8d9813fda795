"""Kombu transport for Redis that tolerates garbage in the broker's keys.

Kombu trusts every key. A queue or a list of held tasks with a wrong type makes each worker fail at its first task. Such
a queue also refuses every task as long as the key exists. This transport deletes such keys and skips messages that are
not tasks. The ledger queues lost tasks again.
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
"""Function of kombu, which has no types."""

OPTION = "broker_keys"
"""Name of the transport option that holds the BrokerKeys."""

HELD_TASK_KEYS: Mapping[str, str] = {"unacked": "hash", "unacked_index": "zset", "unacked_mutex": "string"}
"""Keys in which kombu records the tasks that workers hold, with their Redis types."""

MUTEX = "unacked_mutex"
NO_TTL = -1
"""Answer of PTTL for a key that never expires."""

TASK = "notifier.slice"
"""Name of the only Celery task."""

HEADERS: Mapping[str, object] = {
    "task": TASK,
    "lang": "py",
    "eta": None,
    "expires": None,
    "group": None,
    "retries": 0,
    "timelimit": [None, None],
}
"""Headers that CeleryQueue sends with every task. With other values a worker would not simply run the task."""

DELIVERY = ("exchange", "routing_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerKeys:
    """Keys of one pool's database, by name with their Redis types."""

    types: Mapping[str, str]
    garbage: Counter | None
    """None in a process whose metrics are not scraped."""

    @classmethod
    def of(cls, queues: tuple[str, ...], garbage: Counter | None) -> "BrokerKeys":
        return cls(types={**HELD_TASK_KEYS, **dict.fromkeys(queues, "list")}, garbage=garbage)

    def tidy(self, client: Any) -> None:
        """Delete the keys of a wrong type, and a mutex without a TTL."""
        with client.pipeline(transaction=False) as pipe:
            for key in self.types:
                pipe.type(key)
            pipe.pttl(MUTEX)
            *types, ttl = pipe.execute()
        checked = zip(self.types.items(), (actual.decode() for actual in types), strict=True)
        garbled = [key for (key, type), actual in checked if actual not in (type, "none")]
        if ttl == NO_TTL and MUTEX not in garbled:
            garbled.append(MUTEX)
        for key in garbled:
            client.unlink(key)
        self.count(len(garbled))

    def count(self, times: int = 1) -> None:
        if self.garbage is not None and times:
            self.garbage.labels("queue").inc(times)


class TaskClient(Redis):
    """Redis client whose BRPOP skips messages that are not tasks."""

    def __init__(self, is_task: Callable[[bytes], bool], **options: Any) -> None:
        super().__init__(**options)
        self._is_task = is_task

    def parse_response(self, connection: Any, command_name: str, **options: Any) -> Any:
        answer = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call] # redis-py's own
        if command_name == "BRPOP" and answer and not self._is_task(answer[1]):
            return None
        return answer


class TidyQoS(redis.QoS):
    """Record of held tasks. A step that fails because of a wrong type is repeated after its keys were tidied."""

    def append(self, message: Any, delivery_tag: str) -> None:
        self._retry_after_tidying(super().append, message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        self._retry_after_tidying(super().ack, delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self._retry_after_tidying(super().reject, delivery_tag, requeue)

    def restore_visible(self, *args: Any, **kwargs: Any) -> None:
        # Called every ten seconds. A garbage mutex would silently prevent all restores.
        self.channel.tidy()
        self._retry_after_tidying(super().restore_visible, *args, **kwargs)

    def restore_by_tag(self, tag: Any, *args: Any, **kwargs: Any) -> None:
        try:
            self._retry_after_tidying(super().restore_by_tag, tag, *args, **kwargs)
        except (ValueError, TypeError):  # the held message is not a task
            self.channel.broker_keys.count()
            forget: Untyped = self._remove_from_indices
            forget(tag).execute()

    def _retry_after_tidying(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            step(*args, **kwargs)
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self.channel.tidy()
            step(*args, **kwargs)


class TidyChannel(redis.Channel):
    QoS = TidyQoS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        original: Untyped = super().__init__
        original(*args, **kwargs)
        # A client opens a new channel after a failure, so this also repairs the cause of the failure.
        self.tidy()

    @property
    def broker_keys(self) -> BrokerKeys:
        keys: BrokerKeys = self.connection.client.transport_options[OPTION]
        return keys

    def tidy(self) -> None:
        with self.conn_or_acquire() as client:
            self.broker_keys.tidy(client)

    def _get_client(self) -> Any:
        original: Untyped = super()._get_client
        original()  # raises if the library is too old
        return partial(TaskClient, self._is_task)

    def _brpop_read(self, **options: Any) -> Any:
        original: Untyped = super()._brpop_read
        try:
            return original(**options)
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self.tidy()
            raise Empty from error

    def _is_task(self, item: bytes) -> bool:
        try:
            parse: Untyped = loads
            message: Untyped = virtual.Message
            task = parse(item.decode())
            valid = is_task(task, message(task, channel=self))
        except Exception:  # garbage can raise any error in kombu
            valid = False
        if not valid:
            self.broker_keys.count()
        return valid


class TidyTransport(redis.Transport):
    Channel = TidyChannel


def is_task(sent: Any, message: Any) -> bool:
    """Return whether a message looks like a task sent by CeleryQueue. No other message may reach a worker."""
    if (sent["content-type"], sent["content-encoding"]) != ("application/json", "utf-8"):
        return False
    (name,), keyword_arguments, _ = message.decode()
    headers, properties = sent["headers"], sent["properties"]
    delivery = (properties["delivery_info"][part] for part in DELIVERY)
    return (
        keyword_arguments == {}
        and all(isinstance(text, str) for text in (name, headers["id"], properties["delivery_tag"], *delivery))
        and all(headers[header] == value for header, value in HEADERS.items())
    )


def is_wrong_type(error: ResponseError) -> bool:
    return "WRONGTYPE" in str(error)
