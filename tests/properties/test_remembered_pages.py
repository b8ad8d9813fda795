"""A VIP's page that another process evaluated is shown only while it is what a new process reads from the store."""

from collections.abc import Sequence
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.account import Flag, Flagged
from notifier.domain.event import DELETED_TYPE
from notifier.domain.marks import Mark
from notifier.domain.subject import Member
from notifier.testing.simulator.visits import driven
from tests.flow.inboxes import KIM, Processes
from tests.flow.stage import Stage

Shown = tuple[list[tuple[str, int, bool]], int]
"""Key, mentions and unread of each item, and the badge."""

OWNERS = st.sampled_from(["nova", "orion", "eve"])
STEPS = st.one_of(
    st.tuples(st.just("mention"), OWNERS),
    st.tuples(st.just("delete"), st.integers(0, 20)),
    st.tuples(st.just("mark"), st.integers(0, 20)),
    st.tuples(st.just("quietly"), OWNERS),
    st.tuples(st.just("pass"), st.sampled_from([0.2, 1, 3.9, 4.1, 6, 31, 62])),
    st.tuples(st.just("open"), st.integers(0, 1)),
    st.tuples(st.just("evict"), st.integers(0, 1)),
)


class Played:
    """Two processes that have followed the feeds for a while, and a third one now and then that knows nothing."""

    def __init__(self) -> None:
        self.stage = Stage()
        kim = Member(self.stage.scene.base["kim"].member)
        self.stage.ground.flags.write([Flagged(flag=Flag.VIP, member=kim, on=True, sequence=1)])
        self.processes = Processes(self.stage)
        self.tweets: list[str] = []
        for seconds in (0, 10, 10):
            self.stage.pass_time(seconds=seconds)
            for process in (0, 1):
                self.processes.open(process)
        self.adopted = 0

    def step(self, what: str, value: str | int | float) -> None:
        match what, value:
            case "mention", str(owner):
                self._mention(owner)
            case "quietly", str(owner):
                self.stage.ground.bus.stalled = True
                self._mention(owner)
                self.stage.ground.bus.stalled = False
                self.stage.pass_time(seconds=1)
            case "delete", int(number) if self.tweets:
                self.stage.say(DELETED_TYPE, tweet=self.tweets[number % len(self.tweets)], author="ada")
                self.stage.sequence()
            case "mark", int(number):
                if items := self.processes.open(0).page.items:
                    key = items[number % len(items)].entry.key
                    driven(self.processes.inboxes[0].mark(KIM, [key], Mark.READ))
            case "pass", seconds:
                self.stage.ground.clock.advance(timedelta(seconds=float(seconds)))
            case "evict", int(process):
                self.processes.inboxes[process].viewers.forget(KIM)
            case _:
                pass

    def judge(self) -> None:
        truth = shown(Processes(self.stage), 0)
        for process in (0, 1):
            assert shown(self.processes, process) == truth

    def _mention(self, owner: str) -> None:
        self.tweets.append(f"t{len(self.tweets)}")
        self.stage.mention(owner, of=self.tweets[-1])


def shown(processes: Processes, process: int) -> Shown:
    opening = processes.open(process)
    assert opening.badge is not None
    items = [
        (str(item.entry.key), item.burst.count, item.unread) for item in opening.page.items if hasattr(item, "burst")
    ]
    return items, opening.badge.count


@settings(max_examples=60)
@given(st.lists(STEPS, min_size=5, max_size=30))
def test_page_of_another_process_is_what_the_store_says(steps: Sequence[tuple[str, str | int | float]]) -> None:
    played = Played()
    for what, value in steps:
        played.step(what, value)
        played.judge()
