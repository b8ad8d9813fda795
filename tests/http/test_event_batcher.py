"""Single events are appended in batches, and each gets its own answer."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from notifier.api.background.event_intake import BATCHES_AT_ONCE, LARGEST_BATCH, EventBatcher, EventIntake, Incoming
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.mention import EventId
from notifier.domain.errors import BadEvent, LogUnavailable, NotifierError
from notifier.domain.ids import UserId
from notifier.flow.intake.gateway import IntakeStatus, Receipt
from notifier.wiring.intake import build_gateway
from tests.support.fakes.clock import START
from tests.support.fakes.threads import HeldThreads
from tests.support.in_memory_system import Stage


@dataclass
class SlowGateway:
    """Answers a group when it is let; the groups it was given are kept."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    groups: list[int] = field(default_factory=list)
    error: NotifierError | None = None
    poison: str | None = None

    async def __call__(self, events: Sequence[Incoming]) -> Sequence[Receipt]:
        ids = [event.id.id for event in events if isinstance(event, Sighting)]
        self.groups.append(len(ids))
        await self.open.wait()
        if self.error:
            raise self.error
        if self.poison in ids:
            raise ZeroDivisionError
        return [Receipt(answer=IntakeStatus.ACCEPTED, event=EventId("s", id)) for id in ids]


def test_each_event_of_a_group_gets_its_own_answer() -> None:
    async def run() -> None:
        gateway = SlowGateway()
        tasks = await sent(EventBatcher(append_all=gateway), 500)
        gateway.open.set()
        answers = [(await task).event for task in tasks]
        assert answers == [EventId("s", str(number)) for number in range(500)]
        assert len(gateway.groups) < 10

    asyncio.run(run())


def test_who_comes_alone_goes_at_once_and_no_more_groups_go_than_allowed() -> None:
    async def run() -> None:
        gateway = SlowGateway()
        batcher = EventBatcher(append_all=gateway)
        first = await sent(batcher, 1)
        assert gateway.groups == [1]
        others = [*await sent(batcher, 1), *await sent(batcher, 50)]
        assert len(gateway.groups) == BATCHES_AT_ONCE
        gateway.open.set()
        await asyncio.gather(*first, *others)
        assert gateway.groups == [1, 1, 50]

    asyncio.run(run())


def test_an_outage_is_told_to_everybody_in_the_group() -> None:
    async def run() -> None:
        gateway = SlowGateway(error=LogUnavailable())
        tasks = await sent(EventBatcher(append_all=gateway), 20)
        gateway.open.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(answer) for answer in answers} == {LogUnavailable}

    asyncio.run(run())


def test_nobody_waits_behind_those_who_are_refused() -> None:
    async def run() -> None:
        gateway = SlowGateway(error=LogUnavailable())
        tasks = await sent(EventBatcher(append_all=gateway), 2_000)
        gateway.open.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(answer) for answer in answers} == {LogUnavailable}
        assert sum(gateway.groups) <= 1 + BATCHES_AT_ONCE * LARGEST_BATCH

    asyncio.run(run())


def test_who_comes_after_an_outage_is_accepted() -> None:
    async def run() -> None:
        gateway = SlowGateway(error=LogUnavailable())
        batcher = EventBatcher(append_all=gateway)
        refused = await sent(batcher, 5)
        gateway.open.set()
        await asyncio.gather(*refused, return_exceptions=True)
        gateway.error = None
        assert (await (await sent(batcher, 1))[0]).event == EventId("s", "0")

    asyncio.run(run())


def test_an_event_that_breaks_the_gateway_breaks_nobody_elses() -> None:
    async def run() -> None:
        gateway = SlowGateway(poison="7")
        tasks = await sent(EventBatcher(append_all=gateway), 20)
        gateway.open.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        broken = [number for number, answer in enumerate(answers) if isinstance(answer, ZeroDivisionError)]
        assert (broken, len(answers)) == ([7], 20)

    asyncio.run(run())


def test_one_who_leaves_takes_nobody_along() -> None:
    async def run() -> None:
        gateway = SlowGateway()
        tasks = await sent(EventBatcher(append_all=gateway), 3)
        tasks[1].cancel()
        gateway.open.set()
        assert (await tasks[0]).event == EventId("s", "0")
        assert (await tasks[2]).event == EventId("s", "2")

    asyncio.run(run())


def test_malformed_event_is_refused_while_the_log_hangs() -> None:
    """In a batch with good events it would fail as they do, with an error that invites a retry."""

    async def run() -> None:
        threads = HeldThreads()
        intake = EventIntake(gateway=build_gateway(Stage().system()), threads=threads)
        held = await sent(intake.batcher, 3)
        async with asyncio.timeout(5):
            receipt = await intake.accept(error := BadEvent("no JSON"))
        assert (receipt.answer, receipt.error) == (IntakeStatus.REFUSED, error)
        assert not any(task.done() for task in held)
        threads.open.set()
        await asyncio.gather(*held)

    asyncio.run(run())


async def sent(batcher: EventBatcher, number: int) -> "list[asyncio.Task[Receipt]]":
    """So many events, all waiting when it returns."""

    async def send(id: str) -> Receipt:
        return await batcher.append(Sighting(id=EventId("s", id), user=UserId("ada"), at=START))

    tasks = [asyncio.create_task(send(str(n))) for n in range(number)]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks
