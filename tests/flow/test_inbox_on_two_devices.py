"""Two devices of one user on two processes with caches: no change is ever undone."""

from random import Random

from notifier.domain.ids import BurstKey
from notifier.domain.upstream.validation import DELETED_TYPE
from notifier.domain.users.visibility import Mark, SeenToken
from notifier.flow.inbox.page import Badge
from tests.flow.two_api_processes import KIM, Processes
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync


class Devices:
    """Items that the user saw or changed on any device; a later response must not undo any of it."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.stage.population.resize(
            "nova", 50_000
        )  # below the size at which the fan-out budget lengthens collapse windows
        self.processes = Processes(self.stage)
        self.removed: set[BurstKey] = set()
        self.shown: set[BurstKey] = set()
        self.handled: set[BurstKey] = set()
        """Seen or read items."""
        self.tweets: list[str] = []

    def look(self, device: int) -> tuple[list[BurstKey], SeenToken]:
        opening = self.processes.open(device)
        keys = [item.entry.key for item in opening.page.items]
        unread = {item.entry.key for item in opening.page.items if item.unread}
        assert not self.removed & {*keys}, "an item returned"
        assert self.shown - self.removed <= {*keys}, "an item that was shown is missing"
        assert not self.handled & unread, "an item is unread again"
        assert opening.badge == Badge(count=len(unread), more=False)
        assert opening.page.seen is not None
        assert opening.page.next is None
        self.shown |= {*keys}
        return keys, opening.page.seen

    def act(self, chance: Random, device: int) -> None:
        keys, token = self.look(device)
        inbox = self.processes.inboxes[device]
        match chance.choice(["see", "hide", "read", "mention", "mention", "delete", "wait", "restart"]):
            case "see":
                run_sync(inbox.see(KIM, token))
                opened = {key: self.stage.state.bursts.by_key[key].opened_at for key in keys}
                self.handled |= {key for key in keys if opened[key] <= token.as_of or key in token.newer}
                assert self.handled >= {*keys}
            case "hide" if keys:
                self.removed.add(key := chance.choice(keys))
                run_sync(inbox.mark(KIM, [key], Mark.HIDDEN))
            case "read" if keys:
                self.handled.add(key := chance.choice(keys))
                run_sync(inbox.mark(KIM, [key], Mark.READ))
            case "mention" if len(self.shown - self.removed) < 19:
                self.tweets.append(f"t{len(self.tweets)}")
                self.stage.mention(chance.choice(["nova", "orion"]), of=self.tweets[-1], protected=False)
                self.stage.pass_time(seconds=61)  # so that every mention has a burst of its own
            case "delete" if keys:
                burst = self.stage.state.bursts.by_key[chance.choice(keys)]
                self.removed |= {
                    key
                    for key, other_burst in self.stage.state.bursts.by_key.items()
                    if other_burst.tweet == burst.tweet
                }
                self.stage.send_event(DELETED_TYPE, tweet=burst.tweet, author="ada")
            case "restart":
                self.processes.inboxes[device] = Processes(self.stage).inboxes[device]
            case _:
                self.stage.pass_time(seconds=chance.choice([0.2, 1, 11, 40]))


def test_two_devices_monotone() -> None:
    for seed in range(6):
        chance, devices = Random(seed), Devices()
        for turn in range(60):
            devices.act(chance, turn % 2 if chance.random() < 0.8 else chance.randrange(2))
            for device in (0, 1):
                devices.look(device)
        assert len(devices.shown) > 5
