"""A VIP's facts that one process left in Redis serve other processes while proved current."""

from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.audience.account_flags import Flag, FlagRow
from notifier.domain.ids import BurstKey, Member, UserId
from notifier.domain.users.visibility import Mark
from notifier.ports.inbox_cache_freshness import REMEMBERED_VIEWER_TTL
from tests.flow.two_api_processes import KIM, Processes
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import run_sync

OTHER_USERS, FIRST = [UserId(name) for name in ("lee", "max", "pat", "quinn")], BurstKey(NOVA, 1)


@pytest.fixture
def processes() -> Processes:
    """Kim is a VIP. Process 0 has shown her inbox, and both have shown those of other users."""
    stage = Stage()
    stage.state.account_flags.write(
        [FlagRow(flag=Flag.VIP, member=Member(stage.population.base["kim"].member), is_set=True, sequence=1)]
    )
    stage.mention("nova")
    processes_ = Processes(stage)
    for seconds in (0, 10):
        stage.pass_time(seconds=seconds)
        for process in (0, 1):
            for user in OTHER_USERS:
                processes_.open(process, user)
    processes_.open(0)
    return processes_


def calls_of_first_open(processes: Processes) -> float:
    before = processes.count("inbox_store_calls")
    processes.open(1)
    return processes.count("inbox_store_calls") - before


def test_second_process_reads_no_facts(processes: Processes) -> None:
    assert calls_of_first_open(processes) == 0
    assert processes.shown(1) == processes.shown(0) == [str(FIRST)]


def test_page_of_another_software_version_is_not_shown(processes: Processes) -> None:
    processes.inboxes[1] = replace(processes.inboxes[1], renderer_id=b"another version")
    assert calls_of_first_open(processes) == 1  # for kim's own subject
    assert processes.shown(1) == [str(FIRST)]


def test_stored_page_counts_in_the_memory_of_its_viewer(processes: Processes) -> None:
    run_sync(processes.inboxes[1].page(KIM))
    cached = processes.inboxes[1].viewers.viewers[KIM]
    assert cached.remembered_page is not None
    assert cached.remembered_page.memory_bytes > len(cached.remembered_page.bursts) > 0
    without = replace(cached, remembered_page=None)
    assert cached.size == cached.memory_bytes() == without.memory_bytes() + cached.remembered_page.memory_bytes


def test_only_vips_are_stored(processes: Processes) -> None:
    assert processes.stage.state.versions.viewers.keys() == {KIM}


def test_change_after_the_read_is_shown(processes: Processes) -> None:
    run_sync(processes.inboxes[0].mark(KIM, [FIRST], Mark.HIDDEN))
    assert processes.shown(1) == []


def test_unfollow_after_the_read_is_shown(processes: Processes) -> None:
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    assert processes.shown(1) == []


def test_change_during_redis_outage_is_shown_within_a_second(processes: Processes) -> None:
    versions = processes.stage.state.versions
    versions.away = True
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    versions.away = False
    processes.stage.pass_time(seconds=1)
    assert processes.shown(1) == []


def test_process_that_started_later_reads_the_store(processes: Processes) -> None:
    """The process missed earlier invalidations."""
    versions = processes.stage.state.versions
    versions.away = True
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    versions.away = False
    later = Processes(processes.stage)
    assert later.shown(0) == []


def test_new_server_state_distrusts_stored_facts(processes: Processes) -> None:
    """The server may be a replica that lacks the removal of the version."""
    versions = processes.stage.state.versions
    lost = dict(versions.entries)
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    versions.entries = lost
    versions.server_state += 1
    assert processes.shown(1) == []


def test_stored_facts_expire(processes: Processes) -> None:
    processes.stage.pass_time(seconds=(REMEMBERED_VIEWER_TTL + timedelta(seconds=1)).total_seconds())
    assert calls_of_first_open(processes) == 3
