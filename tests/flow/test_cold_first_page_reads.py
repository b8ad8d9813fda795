"""The first page of a new or long-absent user costs few reads."""

from collections.abc import Awaitable, Callable, Sized
from dataclasses import dataclass, replace
from typing import cast

import pytest

from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.errors import NotFound
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.flow.inbox.burst_walk import RUN_LENGTH
from notifier.flow.inbox.page import Badge
from notifier.flow.inbox.viewer_and_page_cache import viewer_scopes
from notifier.ports.inbox import Timeline
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from notifier.wiring.delivery import build_reconciler
from notifier.wiring.inbox import build_uncached_inbox
from tests.cli.in_memory_read_ports import reads_of
from tests.flow.two_api_processes import KIM, Processes
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import run_sync
from tests.support.simulator.population import SINCE

FOLLOWED = 300
UNSEEN = 60


@dataclass
class Counting:
    """Counts the bursts that a timeline returns."""

    port: object
    burst_count: int = 0

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        call = getattr(self.port, name)

        async def counted(*args: object, **kwargs: object) -> object:
            bursts_read = await call(*args, **kwargs)
            self.burst_count += len(cast(Sized, bursts_read))
            return bursts_read

        return counted


@pytest.fixture(scope="module")
def stage() -> Stage:
    """Kim left after she had seen all but the last mentions."""
    stage = Stage()
    stars = [UserId(f"star{n}") for n in range(FOLLOWED)]
    stage.state.directory.assign_numbers(stars)
    for star in stars:
        stage.state.people.follow(KIM, Subject(Kind.MENTION, star), stage.state.clock.now())
    for n in range(FOLLOWED):
        if n == FOLLOWED - UNSEEN:
            see_everything(stage)
        stage.tweet(str(stars[n * 7 % FOLLOWED]), of=f"t{n}")
        if n % 5 == 0:
            stage.sequence()
            stage.pass_time(hours=3)
    stage.sequence()
    stage.pass_time(days=60)
    return stage


def see_everything(stage: Stage) -> None:
    stage.sequence()
    stage.pass_time(minutes=1)
    processes = Processes(stage)
    token = processes.open(0).page.seen
    assert token is not None
    run_sync(processes.inboxes[0].see(KIM, token))


@pytest.mark.parametrize("warm", [False, True])
def test_cold_start_first_page_costs_at_most_three_calls(stage: Stage, *, warm: bool) -> None:
    """A process that just started reads only the store; a running one has the pull index and follows changes."""
    processes = Processes(stage)
    if warm:
        processes.open(0, UserId("ada"))
        stage.pass_time(seconds=5)
        build_reconciler(stage.system())()
        processes.open(0, UserId("ada"))
    inbox, before = processes.inboxes[0], processes.count("inbox_store_calls")
    inbox.subject_cache.timeline = cast(Timeline, timeline := Counting(stage.state.timeline))
    opening = processes.open(0)
    assert not opening.page.partial
    assert len(opening.page.items) == 20
    assert opening.badge is not None
    assert (opening.badge.count, opening.badge.more) == (UNSEEN, False)
    assert processes.count("inbox_store_calls") - before <= 3
    assert 0 < timeline.burst_count <= 200


def test_cold_start_first_page_reads_few_bursts_when_all_are_unread(stage: Stage) -> None:
    """The badge counts up to a hundred."""
    lee = UserId("lee")
    for n in range(FOLLOWED):
        stage.state.people.follow(lee, Subject(Kind.MENTION, UserId(f"star{n}")), SINCE)
    processes = Processes(stage)
    processes.inboxes[0].subject_cache.timeline = cast(Timeline, timeline := Counting(stage.state.timeline))
    opening = processes.open(0, lee)
    assert opening.badge is not None
    assert (opening.badge.count, opening.badge.more) == (100, True)
    assert timeline.burst_count <= 200


@pytest.mark.parametrize("warm", [False, True])
def test_user_who_has_just_followed_everybody_reads_no_older_bursts(stage: Stage, *, warm: bool) -> None:
    """Otherwise page and badge would examine 90 days of invisible bursts from before the follows."""
    new = UserId(f"new{warm}")
    stage.state.directory.assign_numbers([new])
    for n in range(FOLLOWED):
        stage.state.people.follow(new, Subject(Kind.MENTION, UserId(f"star{n}")), stage.state.clock.now())
    processes = Processes(stage)
    if warm:
        processes.open(0)
    processes.inboxes[0].subject_cache.timeline = cast(Timeline, timeline := Counting(stage.state.timeline))
    opening = processes.open(0, new)
    assert (opening.page.items, opening.page.next, opening.badge) == ([], None, Badge(count=0, more=False))
    assert timeline.burst_count <= 128  # the first read of the subjects' lists, which all viewers share


def test_count_of_a_stream_reads_one_run_from_before_the_follows(stage: Stage) -> None:
    newest = UserId("newest")
    stage.state.directory.assign_numbers([newest])
    for n in range(FOLLOWED):
        stage.state.people.follow(newest, Subject(Kind.MENTION, UserId(f"star{n}")), stage.state.clock.now())
    inbox = replace(
        build_uncached_inbox(reads_of(stage)), timeline=cast(Timeline, timeline := Counting(stage.state.timeline))
    )
    assert run_sync(inbox.badge(newest)) == Badge(count=0, more=False)
    assert timeline.burst_count <= RUN_LENGTH


def test_bursts_are_shown_from_the_moment_of_the_follow_on() -> None:
    stage, moe = Stage(), UserId("moe")
    stage.mention("nova")
    stage.pass_time(minutes=1)
    stage.state.directory.assign_numbers([moe])
    stage.state.people.follow(moe, NOVA, stage.state.clock.now())
    stage.mention("nova")
    stage.pass_time(minutes=1)
    assert Processes(stage).shown(0, moe) == ["mention:nova#2"]
    uncached = build_uncached_inbox(reads_of(stage))
    assert [str(item.entry.key) for item in run_sync(uncached.page(moe)).items] == ["mention:nova#2"]


def ranged_stage() -> Stage:
    """The users u0 to u9 come from one range, but u3 had a number before."""
    stage = Stage()
    stage.state.directory.enrol([DirectoryEntry(user=UserId("u3"), member=Member(77))])
    stage.state.directory.enrol_range(IdRange(prefix="u", first=0, count=10, first_member=Member(500)))
    for user in ("u3", "u4"):
        stage.state.people.follow(UserId(user), Subject(Kind.MENTION, UserId("nova")), SINCE)
    stage.mention("nova")
    stage.pass_time(minutes=1)
    return stage


def test_first_open_by_a_user_of_a_range_costs_two_store_calls() -> None:
    processes = Processes(ranged_stage())
    processes.open(0)  # loads what a new process needs
    before = processes.count("inbox_store_calls")
    assert processes.shown(0, UserId("u4")) == ["mention:nova#1"]
    assert processes.count("inbox_store_calls") - before == 2  # the facts, and the list of the user's own subject


def test_user_with_own_number_does_not_get_the_number_of_the_range() -> None:
    processes = Processes(ranged_stage())
    assert [processes.shown(process, UserId("u3")) for process in (0, 0, 1)] == [["mention:nova#1"]] * 3
    viewer = processes.inboxes[0].viewers.get(UserId("u3"))
    assert viewer is not None
    assert (viewer.member, sorted(viewer.versions)) == (77, sorted(viewer_scopes(Member(77))))


def test_deleted_user_of_a_range_has_no_inbox() -> None:
    stage = ranged_stage()
    stage.state.directory.enrol([DirectoryEntry(user=UserId("u4"), member=Member(504), deleted=True)])
    processes = Processes(stage)
    with pytest.raises(NotFound):
        processes.open(0, UserId("u4"))
