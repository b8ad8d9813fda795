"""Two API processes whose store fails at times and whose Redis is lost or wiped."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.domain.upstream.validation import DELETED_TYPE
from notifier.domain.users.visibility import Mark
from notifier.flow.inbox.page import InboxItem, Page
from notifier.flow.inbox.viewer_and_page_cache import InboxAnswer
from notifier.metrics import Metrics
from notifier.ports.inbox import Timeline
from notifier.ports.viewers_preferences_user_blocks import People
from tests.cli.in_memory_read_ports import reads_of
from tests.flow.two_api_processes import KIM, Processes, inbox_of
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync


@dataclass
class Failing:
    """A port whose calls fail at a given rate, before they have an effect."""

    port: object
    chance: Random
    rate: float = 0.0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.port, name)

        async def called(*args: object, **kwargs: object) -> object:
            if self.chance.random() < self.rate:
                raise StoreUnavailable(name)
            return await call(*args, **kwargs)

        return called


@dataclass
class FailingSystem:
    chance: Random
    stage: Stage = field(default_factory=Stage)
    processes: Processes = field(init=False)
    ports: list[Failing] = field(init=False)
    tweets: int = 0

    def __post_init__(self) -> None:
        self.stage.population.resize(
            "nova", 50_000
        )  # below the size at which the fan-out budget lengthens collapse windows
        self.processes = Processes(self.stage)
        reads = reads_of(self.stage)
        people, timeline = Failing(reads.people, self.chance), Failing(reads.timeline, self.chance)
        self.ports = [people, timeline]
        failing = replace(reads, people=cast(People, people), timeline=cast(Timeline, timeline))
        self.processes.inboxes = [inbox_of(failing, Metrics()) for _ in range(2)]

    def open(self, process: int, *, failing: float) -> InboxAnswer | None:
        """Open the inbox while store calls fail at this rate; return None if there is not even a partial page."""
        for port in self.ports:
            port.rate = failing
        try:
            return self.processes.open(process)
        except StoreUnavailable:
            return None
        finally:
            for port in self.ports:
                port.rate = 0.0

    def all_items(self) -> list[InboxItem]:
        """Return all current items from the store alone."""
        tab = self.stage.uncached_inbox()
        return follow_cursor(lambda after: run_sync(tab.page(KIM, after=after)))

    def all_pages(self, process: int) -> list[InboxItem]:
        inbox = self.processes.inboxes[process]
        return follow_cursor(lambda after: run_sync(inbox.page(KIM, after=after)))

    def change(self) -> None:
        match self.chance.choice(["mention", "mention", "mention", "delete", "hide", "read", "wipe", "away", "time"]):
            case "mention":
                self.tweets += 1
                self.stage.mention(self.chance.choice(["nova", "orion"]), of=f"t{self.tweets}")
                self.stage.pass_time(seconds=61)
            case "delete" if self.tweets:
                tweet = f"t{self.chance.randint(1, self.tweets)}"
                self.stage.send_event(DELETED_TYPE, tweet=tweet, author="ada")
            case "hide":
                self._mark(Mark.HIDDEN)
            case "read":
                self._mark(Mark.READ)
            case "wipe":
                self.stage.state.wipe()
            case "away":
                self._without_redis()
            case _:
                self.stage.pass_time(seconds=self.chance.choice([0.2, 1, 11, 40, 301]))

    def _mark(self, mark: Mark) -> None:
        keys = [key_of(item) for item in self.all_items()]
        if keys:
            inbox = self.chance.choice(self.processes.inboxes)
            run_sync(inbox.mark(KIM, [self.chance.choice(keys)], mark))

    def _without_redis(self) -> None:
        """Change something while Redis is unavailable; one second after its return the inbox shows the change."""
        state = self.stage.state
        state.versions.away = state.bus.stalled = True
        self.tweets += 1
        self.stage.mention("nova", of=f"t{self.tweets}")
        self._mark(Mark.HIDDEN)
        state.versions.away = state.bus.stalled = False
        self.stage.pass_time(seconds=1)


def key_of(item: InboxItem) -> BurstKey:
    return item.entry.key


def follow_cursor(page_after: Callable[[Any], Page]) -> list[InboxItem]:
    """Follow the cursor from the first page to the last and return all items."""
    page = page_after(None)
    items = [*page.items]
    while page.next is not None:
        page = page_after(page.next)
        items += page.items
    return items
