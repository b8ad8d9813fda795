"""What people see after a scenario: some of every class open their tabs, page by page."""

from datetime import timedelta

from notifier.api.auth.identity import issue
from notifier.api.auth.secrets import keys_of
from notifier.config import Settings
from notifier.ports.clock import Clock
from notifier.testing import people
from notifier.testing.tabs import Tabs
from notifier.testing.truth import Truth
from notifier.testing.world import World

TOKENS_LAST = timedelta(hours=1)
ONE_IN = 4
"""Of the people of a trial's sample: a scenario's world is small, and there are many scenarios."""


def wrong_tabs(url: str, settings: Settings, clock: Clock, world: World, truth: Truth) -> list[str]:
    """Lists that aren't as the formulas say, badges that aren't as their lists, and what is shown twice."""
    keys, now = keys_of(settings), clock.now()
    some = people.sample(world, 1)[::ONE_IN]
    tabs = Tabs(url=url, token=lambda user: issue(keys, user, now, TOKENS_LAST), people=some)
    tabs.look()
    return [*tabs.differences(truth, {}), *tabs.badges(), *tabs.twice()]
