"""A partial page has no cursor, and the next whole page shows everything."""

from random import Random

from tests.flow.two_api_processes import KIM
from tests.flow.two_api_processes_with_failures import FailingSystem, key_of
from tests.support.simulator.inbox_visits import run_sync


def test_partial_page_hides_no_unseen_item() -> None:
    """The client keeps its list and sends the token of its last whole page once the store answers."""
    partial_pages = 0
    for seed in range(8):
        chance = Random(seed)
        system = FailingSystem(chance)
        for _ in range(40):
            system.change()
            process = chance.randrange(2)
            before = system.open(process, failing=0.0)
            assert before is not None
            system.change()
            opening = system.open(process, failing=0.5)
            if opening is None or not opening.page.partial:
                continue
            partial_pages += 1
            page = opening.page
            assert (page.next, page.seen, opening.badge) == (None, None, None)
            all_keys = [key_of(item) for item in system.all_items()]
            shown = [key_of(item) for item in before.page.items]
            assert {key_of(item) for item in page.items} <= {*all_keys, *shown}
            unseen = {key_of(item) for item in system.all_items() if item.unread} - {*shown}
            assert before.page.seen is not None
            run_sync(system.processes.inboxes[process].see(KIM, before.page.seen))
            assert [key_of(item) for item in system.all_pages(process)] == all_keys
            assert unseen == {key_of(item) for item in system.all_pages(process) if item.unread} - {*shown}
            after = system.open(process, failing=0.0)
            assert after is not None
            assert not after.page.partial
            assert [key_of(item) for item in after.page.items] == all_keys[:20]
    assert partial_pages > 20
