"""A VIP page stored by another process is shown only while it is current."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.api.auth.service_and_installation_keys import InstallationKeys
from notifier.api.opaque_ids import OpaqueIds
from notifier.api.schemas.page_rendering import Renderer
from notifier.domain.audience.account_flags import Flag, FlagRow
from notifier.domain.ids import Member
from notifier.domain.upstream.validation import DELETED_TYPE
from notifier.domain.users.visibility import Mark
from notifier.metrics import CacheCounters, Metrics
from tests.flow.two_api_processes import KIM, Processes
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync

OPAQUE = OpaqueIds.of(InstallationKeys(secret="the same secret for all processes", service_key="a key"))
PageContent = tuple[list[tuple[str, int, bool]], int, object]
"""Key, mention count and unread flag of each item, the badge, and the rendered form of both."""

METRICS = Metrics()
OWNERS = st.sampled_from(["nova", "orion", "eve"])
STEPS = st.one_of(
    st.tuples(st.just("mention"), OWNERS),
    st.tuples(st.just("delete"), st.integers(0, 20)),
    st.tuples(st.just("mark"), st.integers(0, 20)),
    st.tuples(st.just("mention without bus"), OWNERS),
    st.tuples(st.just("pass"), st.sampled_from([0.2, 1, 3.9, 4.1, 6, 31, 62])),
    st.tuples(st.just("open"), st.integers(0, 1)),
    st.tuples(st.just("count"), st.integers(0, 1)),
    st.tuples(st.just("check"), st.just(0)),
    st.tuples(st.just("evict"), st.integers(0, 1)),
)


class PageScenario:
    """Two processes that have followed the change feeds, compared with new ones that know nothing."""

    def __init__(self) -> None:
        self.stage = Stage()
        kim = Member(self.stage.population.base["kim"].member)
        self.stage.state.account_flags.write([FlagRow(flag=Flag.VIP, member=kim, is_set=True, sequence=1)])
        self.processes = with_api(Processes(self.stage))
        self.tweets: list[str] = []
        for seconds in (0, 10, 10):
            self.stage.pass_time(seconds=seconds)
            for process in (0, 1):
                self.processes.open(process)

    def step(self, action: str, value: str | int | float) -> None:
        match action, value:
            case "mention", str(owner):
                self._mention(owner)
            case "mention without bus", str(owner):
                self.stage.state.bus.stalled = True
                self._mention(owner)
                self.stage.state.bus.stalled = False
                self.stage.pass_time(seconds=1)
            case "delete", int(number) if self.tweets:
                self.stage.send_event(DELETED_TYPE, tweet=self.tweets[number % len(self.tweets)], author="ada")
                self.stage.sequence()
            case "mark", int(number):
                if items := self.processes.open(0).page.items:
                    key = items[number % len(items)].entry.key
                    run_sync(self.processes.inboxes[0].mark(KIM, [key], Mark.READ))
            case "pass", seconds:
                self.stage.state.clock.advance(timedelta(seconds=float(seconds)))
            case "open", int(process):
                first_page(self.processes, process)
            case "count", int(process):
                run_sync(self.processes.inboxes[process].badge(KIM))
            case "check", _:
                self.check_pages()
            case "evict", int(process):
                self.processes.inboxes[process].viewers.forget(KIM)
            case _:
                pass

    def check_pages(self) -> None:
        expected = first_page(with_api(Processes(self.stage)), 0)
        for process in (0, 1):
            assert first_page(self.processes, process) == expected

    def _mention(self, owner: str) -> None:
        self.tweets.append(f"t{len(self.tweets)}")
        self.stage.mention(owner, of=self.tweets[-1])


def first_page(processes: Processes, process: int) -> PageContent:
    opening = processes.open(process)
    assert opening.badge is not None
    items = [
        (str(item.entry.key), item.burst.count, item.unread) for item in opening.page.items if hasattr(item, "burst")
    ]
    sent = json.loads(renderer().first_page(KIM, opening).body)
    return items, opening.badge.count, (sent["items"], sent["badge"])


def with_api(processes: Processes) -> Processes:
    """Let the processes share the pages that they render."""
    processes.inboxes = [replace(inbox, renderer=renderer()) for inbox in processes.inboxes]
    return processes


def renderer() -> Renderer:
    return Renderer(opaque_ids=OPAQUE, stats=CacheCounters(METRICS.inbox_cache, "items"))


@settings(max_examples=100)
@given(st.lists(STEPS, min_size=5, max_size=30))
def test_page_of_another_process_equals_the_store(steps: Sequence[tuple[str, str | int | float]]) -> None:
    scenario = PageScenario()
    for action, value in steps:
        scenario.step(action, value)
    scenario.check_pages()


def test_adopted_page_that_was_only_counted_is_rendered_with_later_changes() -> None:
    """Process 1 adopts the page for its badge; a retraction follows before the page is requested."""
    scenario = PageScenario()
    read_while_fresh = ("mention", "nova"), ("open", 1), ("pass", 31)
    stored_and_adopted = ("evict", 0), ("open", 0), ("evict", 1), ("count", 1)
    for action, value in (*read_while_fresh, *stored_and_adopted, ("delete", 0)):
        scenario.step(action, value)
    scenario.check_pages()
