"""Single events are appended in batches, and each gets its own response."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from notifier.api.background.event_intake import (
    MAX_BATCH_EVENTS,
    MAX_CONCURRENT_BATCHES,
    EventBatcher,
    EventIntake,
    IncomingEvent,
)
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.errors import BadEvent, LogUnavailable, NotifierError
from notifier.domain.ids import UserId
from notifier.flow.intake.gateway import IntakeReceipt, IntakeStatus
from notifier.wiring.intake import build_gateway
from tests.support.fakes.api_threads import GatedThreads
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_system import Stage


@dataclass
class SlowGateway:
    """Records each batch, and answers it when the test allows it."""

    released: asyncio.Event = field(default_factory=asyncio.Event)
    batches: list[int] = field(default_factory=list)
    error: NotifierError | None = None
    poison_id: str | None = None

    async def __call__(self, events: Sequence[IncomingEvent]) -> Sequence[IntakeReceipt]:
        ids = [event.id.id for event in events if isinstance(event, Sighting)]
        self.batches.append(len(ids))
        await self.released.wait()
        if self.error:
            raise self.error
        if self.poison_id in ids:
            raise ZeroDivisionError
        return [IntakeReceipt(status=IntakeStatus.ACCEPTED, event=EventId("s", id)) for id in ids]


def test_each_event_of_a_batch_gets_its_own_response() -> None:
    async def run() -> None:
        gateway = SlowGateway()
        tasks = await send_events(EventBatcher(append_all=gateway), 500)
        gateway.released.set()
        results = [(await task).event for task in tasks]
        assert results == [EventId("s", str(number)) for number in range(500)]
        assert len(gateway.batches) < 10

    asyncio.run(run())


def test_single_event_goes_at_once_and_batches_are_limited() -> None:
    async def run() -> None:
        gateway = SlowGateway()
        batcher = EventBatcher(append_all=gateway)
        first = await send_events(batcher, 1)
        assert gateway.batches == [1]
        later = [*await send_events(batcher, 1), *await send_events(batcher, 50)]
        assert len(gateway.batches) == MAX_CONCURRENT_BATCHES
        gateway.released.set()
        await asyncio.gather(*first, *later)
        assert gateway.batches == [1, 1, 50]

    asyncio.run(run())


def test_outage_is_reported_to_every_event_of_a_batch() -> None:
    async def run() -> None:
        gateway = SlowGateway(error=LogUnavailable())
        tasks = await send_events(EventBatcher(append_all=gateway), 20)
        gateway.released.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} == {LogUnavailable}

    asyncio.run(run())


def test_events_after_refused_ones_are_not_sent_one_by_one() -> None:
    async def run() -> None:
        gateway = SlowGateway(error=LogUnavailable())
        tasks = await send_events(EventBatcher(append_all=gateway), 2_000)
        gateway.released.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} == {LogUnavailable}
        assert sum(gateway.batches) <= 1 + MAX_CONCURRENT_BATCHES * MAX_BATCH_EVENTS

    asyncio.run(run())


def test_event_after_an_outage_is_accepted() -> None:
    async def run() -> None:
        gateway = SlowGateway(error=LogUnavailable())
        batcher = EventBatcher(append_all=gateway)
        refused = await send_events(batcher, 5)
        gateway.released.set()
        await asyncio.gather(*refused, return_exceptions=True)
        gateway.error = None
        assert (await (await send_events(batcher, 1))[0]).event == EventId("s", "0")

    asyncio.run(run())


def test_event_that_breaks_the_gateway_fails_alone() -> None:
    async def run() -> None:
        gateway = SlowGateway(poison_id="7")
        tasks = await send_events(EventBatcher(append_all=gateway), 20)
        gateway.released.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        broken = [number for number, result in enumerate(results) if isinstance(result, ZeroDivisionError)]
        assert (broken, len(results)) == ([7], 20)

    asyncio.run(run())


def test_cancelled_event_does_not_affect_the_others() -> None:
    async def run() -> None:
        gateway = SlowGateway()
        tasks = await send_events(EventBatcher(append_all=gateway), 3)
        tasks[1].cancel()
        gateway.released.set()
        assert (await tasks[0]).event == EventId("s", "0")
        assert (await tasks[2]).event == EventId("s", "2")

    asyncio.run(run())


def test_malformed_event_is_refused_while_the_log_hangs() -> None:
    """In a batch with valid events it would get their error, which invites a retry."""

    async def run() -> None:
        threads = GatedThreads()
        intake = EventIntake(gateway=build_gateway(Stage().system()), threads=threads)
        held = await send_events(intake.batcher, 3)
        async with asyncio.timeout(5):
            receipt = await intake.accept(error := BadEvent("no JSON"))
        assert (receipt.status, receipt.error) == (IntakeStatus.REFUSED, error)
        assert not any(task.done() for task in held)
        threads.open.set()
        await asyncio.gather(*held)

    asyncio.run(run())


async def send_events(batcher: EventBatcher, number: int) -> "list[asyncio.Task[IntakeReceipt]]":
    """Send the number of events, and return their tasks while all of them wait."""

    async def send(id: str) -> IntakeReceipt:
        return await batcher.append(Sighting(id=EventId("s", id), user=UserId("ada"), at=START))

    tasks = [asyncio.create_task(send(str(n))) for n in range(number)]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks
