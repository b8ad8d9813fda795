"""What kafka-python reads answers with stays there, however many threads begin to read at once.

The library makes a class for each version of an answer when the first one comes, and each takes the former's place in
its register, by a weak reference. Of two that two threads make of the same version, the register may have the one that
is kept nowhere: with the next collection of garbage no client of the process can read that kind of answer any more.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient
from kafka.protocol.api_header import ResponseClassRegistry

from notifier.adapters.kafka.config import Access, translated

REGISTER = "_response_class_registry"


class _FirstStays(dict[int, Any]):
    """The class that a module defines comes first, knows all its versions, and lives as long as the process."""

    def __setitem__(self, kind: int, found: Any) -> None:
        self.setdefault(kind, found)


def keep() -> None:
    known = getattr(ResponseClassRegistry, REGISTER, {})
    setattr(ResponseClassRegistry, REGISTER, _FirstStays({kind: found[None] for kind, found in known.items()}))


# Makes clients of kafka-python. Each looks for a broker at once, and one that finds none leaves nothing behind.

FOUND_WITHIN = 1_000
"""Milliseconds until a broker has answered at all; a request that one got and doesn't answer is waited for besides."""

Made = TypeVar("Made")


def made(kind: type[Made], **options: Any) -> Made:
    """Raises what the library raises."""
    nets: list[KafkaNetClient] = []

    def net(**config: Any) -> KafkaNetClient:
        nets.append(KafkaNetClient(**config))
        return nets[-1]

    try:
        return kind(**{"bootstrap_timeout_ms": FOUND_WITHIN, "kafka_client": net, **options})
    except BaseException:
        # The library leaves behind the thread and the sockets of a client that found no broker.
        for one in nets:
            with suppress(KafkaError):
                one.close()
            one._manager._net.stop()
        raise


@contextmanager
def administration(access: Access, **options: Any) -> Iterator[KafkaAdminClient]:
    """For a few calls. Raises what the library raises."""
    admin = made(KafkaAdminClient, **{**access.admin(), **options})
    try:
        yield admin
    finally:
        admin.close()


# Leaves a group at once: the libraries' close keeps a named member's place for the one that comes back.


def leave(access: Access, group: str, member: str, name: str) -> None:
    """By both names: whoever has this one's place by now keeps it. Raises what the library raises."""
    if member:
        with administration(access) as admin:
            admin.remove_group_members(group, [MemberToRemove(member_id=member, group_instance_id=name)])


# Whether a group at rest leaves something unread.
#
# kafka-python's leader shares out what it knows of a topic at that moment. Where it just had no word of the topic,
# that is nothing, and it isn't done again when there is one: nobody reads, and everybody is well.

AT_REST = "Stable"


def unread(access: Access, topic: str, group: str) -> bool:
    """Raises LogUnavailable."""
    with translated("The group isn't known"), administration(access) as admin:
        told = admin.describe_groups([group])[group]
        [found] = admin.describe_topics([topic])
    if told["group_state"] != AT_REST:
        return False
    shares = [share for member in told["members"] for share in _shares(member["member_assignment"])]
    return sum(len(share["partitions"]) for share in shares if share["topic"] == topic) < len(found["partitions"])


def _shares(assignment: Any) -> list[dict[str, Any]]:
    """Of a member that just joined there is none."""
    return list(assignment["assigned_partitions"]) if isinstance(assignment, dict) else []
