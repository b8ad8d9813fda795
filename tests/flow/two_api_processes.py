"""Two API processes with caches of their own, on the memory ports of a stage."""

from dataclasses import dataclass, field

from notifier.domain.ids import UserId
from notifier.flow.inbox.inbox import Inbox
from notifier.flow.inbox.page_deadline_and_breaker import NoDeadline
from notifier.flow.inbox.shared_loads import DirectLoads
from notifier.flow.inbox.viewer_and_page_cache import InboxAnswer
from notifier.metrics import Metrics
from notifier.ports.all_ports import ReadPorts
from notifier.wiring.inbox import build_inbox
from tests.cli.in_memory_read_ports import reads_of
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync

KIM = UserId("kim")


@dataclass(slots=True)
class Processes:
    stage: Stage
    metrics: Metrics = field(default_factory=Metrics)
    inboxes: list[Inbox] = field(init=False)

    def __post_init__(self) -> None:
        self.inboxes = [inbox_of(reads_of(self.stage), self.metrics) for _ in range(2)]

    def open(self, process: int, user: UserId = KIM) -> InboxAnswer:
        return run_sync(self.inboxes[process].open(user))

    def shown(self, process: int, user: UserId = KIM) -> list[str]:
        return [str(item.entry.key) for item in self.open(process, user).page.items]

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"notifier_{name}_total", labels) or 0.0


def warm_processes() -> Processes:
    """Return two processes that have shown Kim a mention of nova."""
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(minutes=1)
    processes = Processes(stage)
    assert processes.shown(0) == processes.shown(1) == ["mention:nova#1"]
    return processes


def inbox_of(reads: ReadPorts, metrics: Metrics) -> Inbox:
    return build_inbox(
        reads,
        metrics=metrics,
        new_shared_loads=DirectLoads,
        deadline=NoDeadline(),
        cache_megabytes=10,
    )
