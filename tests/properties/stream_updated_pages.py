"""Open pages that only stream events update, and the live hub behind them."""

from dataclasses import dataclass, field

from notifier.api.request_threads import ThreadedBursts
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.users.visibility import CERTAINLY_VISIBLE_AGE
from notifier.flow.inbox.page import BurstItem
from notifier.flow.live.hub import LiveHub
from notifier.flow.live.streams_and_events import Listener, Stream, StreamEvent, StreamUpdate
from notifier.metrics import Metrics
from notifier.ports.all_ports import ReadPorts
from notifier.ports.live_bus import MissedUpdates
from notifier.wiring.inbox import build_uncached_inbox
from tests.properties.expected_inboxes import KEPT_FOR, ShownItem
from tests.support.fakes.api_threads import InlineThreads
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts
from tests.support.fakes.live_bus import MemoryLiveBus
from tests.support.simulator.inbox_visits import run_sync


@dataclass
class OpenPage:
    """A client that shows a list and applies the events of its stream."""

    listener: Listener
    stream: Stream
    counts: dict[BurstKey, int] = field(default_factory=dict)
    """Number of mentions of each item on the page."""

    def apply(self, update: StreamUpdate, loaded: list[ShownItem]) -> None:
        match update.event:
            case StreamEvent.RESET:
                self.counts = {item.key: item.count for item in loaded}
            case StreamEvent.HIDDEN:
                assert update.hidden_burst is not None
                self.counts.pop(update.hidden_burst, None)
            case StreamEvent.ROW | StreamEvent.MARKED:
                burst = _burst(update)
                self.counts[burst.key] = burst.count
            case StreamEvent.GROUP if (burst := _burst(update)).key in self.counts:
                self.counts[burst.key] = burst.count
            case _:
                pass


@dataclass
class LiveProcess:
    """The streams of one API process, on a hub whose loops run only when the test calls them."""

    reads: ReadPorts
    bus: MemoryLiveBus
    bursts: MemoryBursts
    hub: LiveHub = field(init=False)
    pages: dict[str, OpenPage] = field(default_factory=dict)
    consumed: int = 0

    def __post_init__(self) -> None:
        self.hub = hub_of(self.reads, self.bursts)
        self.consumed = len(self.bus.stream)

    def open(self, user: str, items: list[ShownItem]) -> None:
        now = self.reads.clock.now()
        listener = run_sync(self.hub.registry.get_or_add(UserId(user)))
        stream = Stream(since=now - CERTAINLY_VISIBLE_AGE, ends_at=0, written_at=now)
        listener.streams.append(stream)
        run_sync(self.hub.registry.refresh(listener))
        self.pages[user] = OpenPage(listener, stream, {item.key: item.count for item in items})

    def lose_connection(self) -> None:
        """Lose the connection to the bus; the new one begins with a gap."""
        self.consumed = len(self.bus.stream)
        self.hub.reset_listeners()

    def record_mark(self, user: str, key: BurstKey) -> None:
        """Record a mark that this process changed; it updates its own streams at once."""
        self.pages[user].listener.unsent_marks.add(key)

    def catch_up(self) -> None:
        """Process new bus messages, read the store, and refresh the facts of every listener."""
        updates, self.consumed = self.bus.stream[self.consumed :], len(self.bus.stream)
        for update in updates:
            match update:
                case Burst():
                    self.hub.registry.deliver(update)
                case MissedUpdates():
                    self.hub.reset_listeners()
        run_sync(self.hub.sweep())
        for page in self.pages.values():
            run_sync(self.hub.registry.refresh(page.listener))

    def shown(self, user: str, loaded: list[ShownItem]) -> dict[BurstKey, int]:
        """Return what the open page shows. After a reset it loads its list again, as `loaded`."""
        page, now = self.pages[user], self.reads.clock.now()
        for update in page.stream.take(page.listener.view(now), page.listener.badge):
            page.apply(update, loaded)
        opened = {burst.key: burst.opened_at for burst in self.bursts.by_key.values()}
        return {key: count for key, count in page.counts.items() if opened[key] + KEPT_FOR > now}

    def unread(self, user: str) -> set[BurstKey]:
        """Return the bursts that the stream's badge counts."""
        unread, now = self.pages[user].listener.unread_keys, self.reads.clock.now()
        opened = {burst.key: burst.opened_at for burst in self.bursts.by_key.values()}
        return {key for key in unread or () if opened[key] + KEPT_FOR > now}


def hub_of(reads: ReadPorts, bursts: MemoryBursts) -> LiveHub:
    async def pause(_: float) -> None:
        raise AssertionError("no loop of the hub may run by itself")

    return LiveHub(
        inbox=build_uncached_inbox(reads),
        bus=reads.live,
        bursts=ThreadedBursts(bursts=bursts, threads=InlineThreads()),
        metrics=Metrics(),
        clock=reads.clock,
        pause=pause,
        max_streams=10,
        name="hub",
    )


def _burst(update: StreamUpdate) -> Burst:
    assert isinstance(update.item, BurstItem)
    return update.item.burst
