"""Single events go through the gateway together, and each gets the answer that is its own."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import msgspec
import pytest

from notifier.api.background.event_batcher import AT_ONCE, MOST, Gathering
from notifier.domain.bursts.mention import EventId
from notifier.domain.errors import BadEvent, LogUnavailable, NotifierError
from notifier.flow.intake.gateway import Answer, Receipt
from tests.support.fakes.threads import HeldThreads


@dataclass
class SlowGateway:
    """Answers a group when it is let; the groups it was given are kept."""

    threads: HeldThreads = field(default_factory=HeldThreads)
    error: NotifierError | None = None
    poison: str | None = None

    @property
    def open(self) -> asyncio.Event:
        return self.threads.open

    @property
    def groups(self) -> list[int]:
        return [len(ids_of(cast(bytes, body))) for body, *_ in self.threads.calls]

    def gathering(self) -> Gathering:
        return Gathering(gateway=self, threads=self.threads)

    def __call__(self, body: bytes, *, batch: bool, settles: bool) -> Sequence[Receipt]:
        assert (batch, settles) == (True, False)
        ids = ids_of(body)
        if self.error:
            raise self.error
        if self.poison in ids:
            raise ZeroDivisionError
        return [Receipt(answer=Answer.ACCEPTED, event=EventId("s", id)) for id in ids]


def ids_of(body: bytes) -> list[str]:
    return msgspec.json.decode(body, type=list[str])


def test_each_event_of_a_group_gets_its_own_answer() -> None:
    async def run() -> None:
        gateway = SlowGateway()
        tasks = await sent(gateway.gathering(), 500)
        gateway.open.set()
        answers = [(await task).event for task in tasks]
        assert answers == [EventId("s", str(number)) for number in range(500)]
        assert len(gateway.groups) < 10

    asyncio.run(run())


def test_who_comes_alone_goes_at_once_and_no_more_groups_go_than_allowed() -> None:
    async def run() -> None:
        gateway = SlowGateway()
        gathering = gateway.gathering()
        first = await sent(gathering, 1)
        assert gateway.groups == [1]
        others = [*await sent(gathering, 1), *await sent(gathering, 50)]
        assert len(gateway.groups) == AT_ONCE
        gateway.open.set()
        await asyncio.gather(*first, *others)
        assert gateway.groups == [1, 1, 50]

    asyncio.run(run())


def test_an_outage_is_told_to_everybody_in_the_group() -> None:
    async def run() -> None:
        gateway = SlowGateway(error=LogUnavailable())
        tasks = await sent(gateway.gathering(), 20)
        gateway.open.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(answer) for answer in answers} == {LogUnavailable}

    asyncio.run(run())


def test_nobody_waits_behind_those_who_are_refused() -> None:
    async def run() -> None:
        gateway = SlowGateway(error=LogUnavailable())
        tasks = await sent(gateway.gathering(), 2_000)
        gateway.open.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(answer) for answer in answers} == {LogUnavailable}
        assert sum(gateway.groups) <= 1 + AT_ONCE * MOST

    asyncio.run(run())


def test_who_comes_after_an_outage_is_accepted() -> None:
    async def run() -> None:
        gateway = SlowGateway(error=LogUnavailable())
        gathering = gateway.gathering()
        refused = await sent(gathering, 5)
        gateway.open.set()
        await asyncio.gather(*refused, return_exceptions=True)
        gateway.error = None
        assert (await (await sent(gathering, 1))[0]).event == EventId("s", "0")

    asyncio.run(run())


def test_an_event_that_breaks_the_gateway_breaks_nobody_elses() -> None:
    async def run() -> None:
        gateway = SlowGateway(poison="7")
        tasks = await sent(gateway.gathering(), 20)
        gateway.open.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        broken = [number for number, answer in enumerate(answers) if isinstance(answer, ZeroDivisionError)]
        assert (broken, len(answers)) == ([7], 20)

    asyncio.run(run())


def test_one_who_leaves_takes_nobody_along() -> None:
    async def run() -> None:
        gateway = SlowGateway()
        tasks = await sent(gateway.gathering(), 3)
        tasks[1].cancel()
        gateway.open.set()
        assert (await tasks[0]).event == EventId("s", "0")
        assert (await tasks[2]).event == EventId("s", "2")

    asyncio.run(run())


@pytest.mark.parametrize("body", [b"", b'"a","b"', b'"a"] ,["b"', b"[", b'"a" x', b"{" * 10_000])
def test_what_isnt_one_value_never_joins_a_group(body: bytes) -> None:
    with pytest.raises(BadEvent):
        asyncio.run(SlowGateway().gathering()(body))


async def sent(gathering: Gathering, number: int) -> "list[asyncio.Task[Receipt]]":
    """So many events, all waiting when it returns."""

    async def send(id: str) -> Receipt:
        return await gathering(msgspec.json.encode(id))

    tasks = [asyncio.create_task(send(str(n))) for n in range(number)]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks
