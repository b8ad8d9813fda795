"""A partial page promises nothing, and loses nothing: the next whole page shows everything."""

from random import Random

from tests.flow.failing_system import FailingSystem, key_of
from tests.flow.inboxes import KIM
from tests.support.simulator.inbox_visits import driven


def test_partial_cursor_safe() -> None:
    """The client keeps its list, and hands in the token of its last whole page; then the store answers again."""
    partial_pages = 0
    for seed in range(8):
        chance = Random(seed)
        troubled = FailingSystem(chance)
        for _ in range(40):
            troubled.change()
            process = chance.randrange(2)
            before = troubled.open(process, failing=0.0)
            assert before is not None
            troubled.change()
            opening = troubled.open(process, failing=0.5)
            if opening is None or not opening.page.partial:
                continue
            partial_pages += 1
            page = opening.page
            assert (page.next, page.seen, opening.badge) == (None, None, None)
            everything = [key_of(item) for item in troubled.everything()]
            shown = [key_of(item) for item in before.page.items]
            assert {key_of(item) for item in page.items} <= {*everything, *shown}
            unseen = {key_of(item) for item in troubled.everything() if item.unread} - {*shown}
            assert before.page.seen is not None
            driven(troubled.processes.inboxes[process].see(KIM, before.page.seen))
            assert [key_of(item) for item in troubled.all_pages(process)] == everything
            assert unseen == {key_of(item) for item in troubled.all_pages(process) if item.unread} - {*shown}
            after = troubled.open(process, failing=0.0)
            assert after is not None
            assert not after.page.partial
            assert [key_of(item) for item in after.page.items] == everything[:20]
    assert partial_pages > 20
