"""The badge of a whole page equals the unread items of all pages."""

from datetime import timedelta
from random import Random

from notifier.domain.bursts.burst import RETENTION
from notifier.domain.ids import Kind, Subject, UserId
from tests.flow.two_api_processes import KIM, Processes
from tests.flow.two_api_processes_with_failures import FailingSystem, key_of
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync

ORION = Subject(Kind.MENTION, UserId("orion"))
SECOND = timedelta(seconds=1)


def unread_on_all_pages(processes: Processes, process: int, user: UserId = KIM) -> int:
    """Count the unread items of all pages."""
    page = processes.open(process, user).page
    items = [*page.items]
    while page.next is not None:
        page = run_sync(processes.inboxes[process].page(user, after=page.next))
        items += page.items
    return sum(item.unread for item in items)


def test_badge_equals_list_when_item_behind_first_page_expires() -> None:
    stage = Stage()
    for n in range(40):
        stage.mention("orion", of=f"t{n}")
        stage.pass_time(minutes=2)
    oldest = stage.state.bursts.by_key[stage.bursts(ORION)[0]].opened_at
    processes = Processes(stage)
    stage.state.clock.advance(oldest + RETENTION - SECOND - stage.state.clock.now())
    badge = processes.open(0).badge
    assert badge is not None
    assert badge.count == unread_on_all_pages(processes, 0) == 40
    stage.pass_time(seconds=1)
    badge = processes.open(0).badge
    assert badge is not None
    assert badge.count == unread_on_all_pages(processes, 0) == 39


def test_badge_equals_list_while_store_and_redis_fail() -> None:
    compared = failed = 0
    for seed in range(8):
        chance = Random(seed)
        system = FailingSystem(chance)
        for _ in range(60):
            system.change()
            opening = system.open(chance.randrange(2), failing=chance.choice([0.0, 0.1, 0.4]))
            if opening is None or opening.badge is None:
                failed += 1
                continue
            compared += 1
            assert not opening.page.partial
            all_items = system.all_items()
            assert [key_of(item) for item in opening.page.items] == [key_of(item) for item in all_items[:20]]
            assert opening.badge.count == sum(item.unread for item in all_items)
    assert compared > 200
    assert failed > 20
