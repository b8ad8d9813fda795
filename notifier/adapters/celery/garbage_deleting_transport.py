"""Kombu transport for Redis that tolerates garbage in the broker's keys.

Kombu trusts every key. If a key has a wrong type, workers fail, or a queue refuses new tasks. This transport deletes
such keys and skips messages that are not tasks. Lost tasks are queued again from the ledger.

To restore a task means to put an unacknowledged task back into its queue after a timeout.
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

EXPECTED_KEY_TYPES_OPTION = "expected_key_types"

UNACKED_TASK_KEYS: Mapping[str, str] = {"unacked": "hash", "unacked_index": "zset", "unacked_mutex": "string"}
"""Keys that kombu uses for tasks that workers have not acknowledged yet, with their Redis types."""

UNACKED_MUTEX_KEY = "unacked_mutex"
"""Key of the lock that a worker takes while it restores tasks."""

DELETE_GARBAGE = """
local deleted = 0
for position, key in ipairs(KEYS) do
  local actual = redis.call('TYPE', key).ok
  local has_wrong_type = actual ~= 'none' and actual ~= ARGV[position]
  local never_expires = key == ARGV[#KEYS + 1] and redis.call('PTTL', key) == -1
  if has_wrong_type or never_expires then deleted = deleted + redis.call('UNLINK', key) end
end
return deleted
"""
"""Lua script that deletes the keys of a wrong type, and a mutex that never expires.

With separate commands, another process could replace garbage by a task between our check and our deletion, and we
would delete the task.
"""

TASK_NAME = "notifier.slice"
"""Name of the only Celery task."""

TASK_HEADERS: Mapping[str, object] = {
    "task": TASK_NAME,
    "lang": "py",
    "eta": None,
    "expires": None,
    "group": None,
    "retries": 0,
    "timelimit": [None, None],
}
"""Headers that CeleryQueue sends with every task. With other values a worker could delay or discard the task."""

DELIVERY_FIELDS = ("exchange", "routing_key")
"""Fields of a message's `delivery_info` that must be texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedKeyTypes:
    """Keys that kombu uses in one pool's database, and the Redis type that each must have."""

    type_by_key: Mapping[str, str]
    garbage_counter: Counter | None
    """None in a process whose metrics are not scraped."""

    @classmethod
    def for_queues(cls, queues: tuple[str, ...], garbage_counter: Counter | None) -> "ExpectedKeyTypes":
        type_by_key = {**UNACKED_TASK_KEYS, **dict.fromkeys(queues, "list")}
        return cls(type_by_key=type_by_key, garbage_counter=garbage_counter)

    def delete_garbage(self, client: Any) -> None:
        """Delete keys of a wrong type, and a mutex without a TTL, which would keep workers from restoring tasks."""
        keys, types = list(self.type_by_key), self.type_by_key.values()
        self.count_garbage(client.eval(DELETE_GARBAGE, len(keys), *keys, *types, UNACKED_MUTEX_KEY))

    def count_garbage(self, count: int = 1) -> None:
        if self.garbage_counter is not None and count:
            self.garbage_counter.labels("queue").inc(count)


class TaskClient(Redis):
    """Redis client whose BRPOP skips messages that are not tasks."""

    def __init__(self, is_task: Callable[[bytes], bool], **options: Any) -> None:
        super().__init__(**options)
        self._is_task = is_task

    def parse_response(self, connection: Any, command_name: str, **options: Any) -> Any:
        response = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call] # redis-py's own
        if command_name == "BRPOP" and response and not self._is_task(response[1]):
            return None
        return response


class GarbageDeletingQoS(redis.QoS):
    """Record of unacknowledged tasks. A step that meets a key of a wrong type runs again after that key is deleted."""

    def append(self, message: Any, delivery_tag: str) -> None:
        self._retry_without_garbage(super().append, message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        self._retry_without_garbage(super().ack, delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self._retry_without_garbage(super().reject, delivery_tag, requeue)

    def restore_visible(self, *args: Any, **kwargs: Any) -> None:
        # Kombu calls this regularly. With garbage in place of the mutex it would silently restore nothing.
        self.channel.delete_garbage()
        self._retry_without_garbage(super().restore_visible, *args, **kwargs)

    def restore_by_tag(self, tag: Any, *args: Any, **kwargs: Any) -> None:
        try:
            self._retry_without_garbage(super().restore_by_tag, tag, *args, **kwargs)
        except (ValueError, TypeError):  # the unacknowledged message is not a task
            self.channel.expected_key_types.count_garbage()
            forget: Untyped = self._remove_from_indices
            forget(tag).execute()

    def _retry_without_garbage(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            step(*args, **kwargs)
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self.channel.delete_garbage()
            step(*args, **kwargs)


class GarbageDeletingChannel(redis.Channel):
    QoS = GarbageDeletingQoS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        base_method: Untyped = super().__init__
        base_method(*args, **kwargs)
        # A process opens a new channel after a failure. Garbage may have caused the failure.
        self.delete_garbage()

    @property
    def expected_key_types(self) -> ExpectedKeyTypes:
        expected: ExpectedKeyTypes = self.connection.client.transport_options[EXPECTED_KEY_TYPES_OPTION]
        return expected

    def delete_garbage(self) -> None:
        with self.conn_or_acquire() as client:
            self.expected_key_types.delete_garbage(client)

    def _get_client(self) -> Any:
        base_method: Untyped = super()._get_client
        base_method()  # raises if the library is too old
        return partial(TaskClient, self._is_task)

    def _brpop_read(self, **options: Any) -> Any:
        base_method: Untyped = super()._brpop_read
        try:
            return base_method(**options)
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self.delete_garbage()
            raise Empty from error

    def _is_task(self, packed_message: bytes) -> bool:
        try:
            parse: Untyped = loads
            message: Untyped = virtual.Message
            task = parse(packed_message.decode())
            is_valid = is_task(task, message(task, channel=self))
        except Exception:  # garbage can raise any error in kombu
            is_valid = False
        if not is_valid:
            self.expected_key_types.count_garbage()
        return is_valid


class GarbageDeletingTransport(redis.Transport):
    """Transport for Redis whose channels delete garbage and skip messages that are not tasks."""

    Channel = GarbageDeletingChannel


def is_task(raw: Any, message: Any) -> bool:
    """Return whether a message looks like a task sent by CeleryQueue. No other message may reach a worker.

    May raise any error for a message without the parts of a task.
    """
    if (raw["content-type"], raw["content-encoding"]) != ("application/json", "utf-8"):
        return False
    (slice_name,), keyword_arguments, _ = message.decode()
    headers, properties = raw["headers"], raw["properties"]
    delivery = (properties["delivery_info"][field] for field in DELIVERY_FIELDS)
    return (
        keyword_arguments == {}
        and all(isinstance(text, str) for text in (slice_name, headers["id"], properties["delivery_tag"], *delivery))
        and all(headers[header] == value for header, value in TASK_HEADERS.items())
    )


def is_wrong_type(error: ResponseError) -> bool:
    return "WRONGTYPE" in str(error)
