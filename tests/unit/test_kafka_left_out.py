"""A reader that became a member of its group and was given nothing, though there is something for it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from notifier.adapters.kafka.client import Changes, Sender
from notifier.adapters.kafka.config import Access
from notifier.adapters.kafka.consumer import KafkaReader
from notifier.ports.event_log import Logged

AT_ONCE = timedelta(0)


@dataclass
class Left:
    """A member that is given nothing."""

    changes: Changes
    nobodys: bool
    closed: bool = False
    joined: bool = False

    def poll(self, wait: timedelta) -> Sequence[Logged]:
        if not self.joined:
            self.joined = True
            self.changes.gained([])
        return []

    def commit(self, offsets: Mapping[int, int]) -> None: ...

    def commits(self) -> Mapping[int, int | None]:
        return {}

    def bounds(self, numbers: Iterable[int]) -> Mapping[int, tuple[int, int]]:
        return {}

    def life(self) -> str:
        return ""

    def unread(self) -> bool:
        return self.nobodys

    def seek(self, number: int, offset: int) -> None: ...

    def close(self) -> None:
        self.closed = True


@dataclass
class Client:
    nobodys: bool
    made: list[Left] = field(default_factory=list)

    def sender(self, access: Access) -> Sender:
        raise NotImplementedError

    def membership(self, access: Access, stream: str, group: str, name: str, changes: Changes) -> Left:
        self.made.append(Left(changes=changes, nobodys=self.nobodys))
        return self.made[-1]


def reader(client: Client, idle_for: float) -> KafkaReader:
    return KafkaReader(client, Access(servers="nowhere:1"), "mentions", "router", "one", idle_for=idle_for)


def test_who_is_given_nothing_while_something_is_nobodys_leaves_and_joins_anew() -> None:
    client = Client(nobodys=True)
    left_out = reader(client, idle_for=0.0)
    left_out.poll(10, AT_ONCE)
    left_out.poll(10, AT_ONCE)
    assert [one.closed for one in client.made] == [True, False]


def test_who_is_given_nothing_because_others_have_it_all_stays() -> None:
    client = Client(nobodys=False)
    spare = reader(client, idle_for=0.0)
    for _ in range(3):
        spare.poll(10, AT_ONCE)
    assert [one.closed for one in client.made] == [False]


def test_nobody_looks_before_some_time_has_passed() -> None:
    client = Client(nobodys=True)
    fresh = reader(client, idle_for=60.0)
    for _ in range(3):
        fresh.poll(10, AT_ONCE)
    assert [one.closed for one in client.made] == [False]
