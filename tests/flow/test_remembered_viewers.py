"""A VIP's facts that one process left in Redis: another opens the inbox with them where they are proved current."""

from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.audience.account_flags import Flag, Flagged
from notifier.domain.ids import BurstKey, Member, UserId
from notifier.domain.users.visibility import Mark
from notifier.ports.inbox_versions import REMEMBERED_FOR
from tests.flow.inboxes import KIM, Processes
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import driven

OTHERS, FIRST = [UserId(name) for name in ("lee", "max", "pat", "quinn")], BurstKey(NOVA, 1)


@pytest.fixture
def processes() -> Processes:
    """Kim is a VIP; the first process has shown her inbox, the second one those of everybody else."""
    stage = Stage()
    stage.ground.flags.write(
        [Flagged(flag=Flag.VIP, member=Member(stage.scene.base["kim"].member), on=True, sequence=1)]
    )
    stage.mention("nova")
    found = Processes(stage)
    for seconds in (0, 10):
        stage.pass_time(seconds=seconds)
        for process in (0, 1):
            for user in OTHERS:
                found.open(process, user)
    found.open(0)
    return found


def calls_of_first_open(processes: Processes) -> float:
    before = processes.count("inbox_store_calls")
    processes.open(1)
    return processes.count("inbox_store_calls") - before


def test_second_process_reads_no_facts(processes: Processes) -> None:
    assert calls_of_first_open(processes) == 0
    assert processes.shown(1) == processes.shown(0) == [str(FIRST)]


def test_page_of_other_software_is_not_shown(processes: Processes) -> None:
    processes.inboxes[1] = replace(processes.inboxes[1], maker=b"another version")
    assert calls_of_first_open(processes) == 1  # for the subject that is kim's alone
    assert processes.shown(1) == [str(FIRST)]


def test_page_that_was_left_counts_in_the_memory_of_its_viewer(processes: Processes) -> None:
    driven(processes.inboxes[1].page(KIM))
    cached = processes.inboxes[1].viewers.viewers[KIM]
    assert cached.page is not None
    assert cached.page.own_bytes > len(cached.page.bursts) > 0
    without = replace(cached, page=None)
    assert cached.size == cached.measured() == without.measured() + cached.page.own_bytes


def test_nobody_else_is_remembered(processes: Processes) -> None:
    assert processes.stage.ground.versions.viewers.keys() == {KIM}


def test_change_after_the_read_is_shown(processes: Processes) -> None:
    driven(processes.inboxes[0].mark(KIM, [FIRST], Mark.HIDDEN))
    assert processes.shown(1) == []


def test_unfollow_after_the_read_is_shown(processes: Processes) -> None:
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    assert processes.shown(1) == []


def test_change_that_redis_was_not_told_of_is_shown_within_a_second(processes: Processes) -> None:
    versions = processes.stage.ground.versions
    versions.away = True
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    versions.away = False
    processes.stage.pass_time(seconds=1)
    assert processes.shown(1) == []


def test_process_that_started_later_reads_the_store(processes: Processes) -> None:
    """It has not heard what was told before."""
    versions = processes.stage.ground.versions
    versions.away = True
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    versions.away = False
    later = Processes(processes.stage)
    assert later.shown(0) == []


def test_new_connection_distrusts_what_is_remembered(processes: Processes) -> None:
    """The server behind it may have taken over without the change that took the version away."""
    versions = processes.stage.ground.versions
    lost = dict(versions.entries)
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    versions.entries = lost
    versions.connection += 1
    assert processes.shown(1) == []


def test_facts_are_not_remembered_for_long(processes: Processes) -> None:
    processes.stage.pass_time(seconds=(REMEMBERED_FOR + timedelta(seconds=1)).total_seconds())
    assert calls_of_first_open(processes) == 3
