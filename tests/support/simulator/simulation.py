"""One run: the processes on their ground, the script's inputs, and the time until all is quiet."""

import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from notifier.codec import UpstreamEvent, read_event
from notifier.config import Settings
from notifier.domain.audience.activity import hour_of
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.retraction import Retraction
from notifier.domain.delivery.slice import PHONES, Pool
from notifier.domain.delivery.throttle import Throttle
from notifier.domain.errors import Full, NotifierError, Unavailable
from notifier.domain.upstream.validation import DELETED_TYPE, EDITED_TYPE, ERASED_TYPE, EVENT_TYPE, PROTECTED_TYPE
from notifier.flow.inbox.page import OpenedInbox as Shown
from notifier.flow.intake.gateway import Gateway, IntakeStatus, Receipt
from notifier.wiring.indexing import build_device_registry
from notifier.wiring.intake import build_gateway
from tests.support.oracle import Tweet, Withdrawn
from tests.support.simulator.cast import VIEWERS, Scene
from tests.support.simulator.durable_state import Ground
from tests.support.simulator.inbox_visits import Visits, driven
from tests.support.simulator.preference_changes import SAID, Said
from tests.support.simulator.push_observer import Ringing
from tests.support.simulator.retractions import Withdrawals
from tests.support.simulator.roles import Roles, Threads
from tests.support.simulator.scenarios.devices import dialled
from tests.support.simulator.scenarios.moderation import operator
from tests.support.simulator.scheduler import Process, Scheduler
from tests.support.simulator.script import (
    Changed,
    Input,
    Judged,
    Opened,
    Resized,
    Script,
    TakenBack,
    Throttled,
    Tweeted,
)
from tests.support.simulator.seal_observer import Watching
from tests.support.simulator.snapshot import Sight

# Complaints: what the loops of a run log as errors.


class Complaints(logging.Handler):
    """What the loops log as an error: a bug, because outages are warnings."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else ""
        self.found.append(f"{record.getMessage()} {cause!r}")

    @contextmanager
    def listening(self) -> Iterator[None]:
        loggers = [logging.getLogger(name) for name in ("notifier.consumer_loop", "workers.runner")]
        before = [(logger, logger.propagate, logger.level) for logger in loggers]
        for logger in loggers:
            logger.addHandler(self)
            logger.propagate = False
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, propagate, level in before:
                logger.removeHandler(self)
                logger.propagate = propagate
                logger.setLevel(level)


# Bodies: how the tweet service says what the script has it say.

TEXT = "hello"
WITHDRAWALS = {"delete": DELETED_TYPE, "edit": EDITED_TYPE, "protect": PROTECTED_TYPE, "erase": ERASED_TYPE}


def body(tweeted: Tweeted, time: str) -> bytes:
    data = {
        "tweet": tweeted.id,
        "author": tweeted.author,
        "mentions": list(tweeted.mentioned),
        "text": TEXT,
        "protected": tweeted.protected,
    }
    event = {"specversion": "1.0", "type": EVENT_TYPE, "source": "tweets", "id": tweeted.id, "time": time, "data": data}
    return json.dumps(event).encode()


def withdrawal(given: TakenBack, time: str) -> bytes:
    data: dict[str, object] = {"tweet": given.tweet, "author": given.author} if given.tweet else {"user": given.author}
    if given.what == "edit":
        data |= {"mentions": list(given.mentioned), "text": given.text, "sequence": given.sequence}
    event = {"specversion": "1.0", "type": WITHDRAWALS[given.what], "source": "tweets", "id": given.id, "time": time}
    return json.dumps(event | {"data": data}).encode()


T = TypeVar("T")
Accept = Callable[[Sequence[UpstreamEvent | NotifierError]], Sequence[Receipt]]

API_PROCESSES = 2
"""With caches of their own."""
DRAIN_STEPS = 40_000
LOOKED_EVERY = 40
SLOWER = 4.0
"""While nothing new comes, everybody looks less often: there is less to order."""


class World:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.ground = Ground()
        self.scene = Scene(self.ground, script.crowd, script.platforms, graph=script.graph, phones=not script.devices)
        self.tweets: dict[str, Tweet] = {}
        self.accepted: set[str] = set()
        self.unsent: deque[tuple[str, bytes]] = deque()
        """Events with their bodies, which stay the same however often they are sent."""
        self.unsaid: deque[Said] = deque()
        self.undialled: deque[Changed] = deque()
        self.judged: deque[Judged] = deque()
        self.undone: deque[tuple[str, bytes]] = deque()
        """What is taken back, as `unsent` is."""
        self.withdrawals = Withdrawals(self.ground)
        self.ground.log.withdraws = self.withdrawals.hear
        self.complaints = Complaints()
        self.scheduler = Scheduler(script, self.ground, self._input)
        self.sight = Sight(self.ground, self.scene, self.tweets, self.withdrawals)
        self.ringing = Ringing(self.sight)
        self.watching = Watching(self.scene, self.scheduler.running)
        settings = Settings(threshold=script.threshold, collapse=script.collapse, roll_up_every=script.rolls_up)
        self.roles = Roles(self.ground, self.scheduler, settings, self.ringing, self.watching, script)
        inboxes = [self.roles.inbox(self if script.rolls_up else None) for _ in range(API_PROCESSES)]
        self.visits = Visits(inboxes, self.sight, self.scheduler.sleep, marked=self.ringing.marked)
        self.quiet = False
        self._opened: dict[str, deque[Opened]] = {name: deque() for name in VIEWERS}
        self._throttles = 0
        self._sequences: Counter[tuple[str, str]] = Counter()

    def run(self) -> None:
        """Plays the script, then lets everybody finish; `quiet` says whether they did."""
        with self.complaints.listening():
            self._populate()
            self.scheduler.advance(self.script.steps)
            self.scheduler.calm()
            self.scheduler.pace = SLOWER
            for _ in range(DRAIN_STEPS // LOOKED_EVERY):
                self.scheduler.advance(LOOKED_EVERY)
                if self._quiet():
                    break
                self.ground.skip()
            self.quiet = self._quiet()
            self.scheduler.close()

    def waiting(self) -> Iterator[str]:
        """What keeps it from being quiet."""
        yield from (f"{id} isn't accepted" for id, _ in self.unsent)
        yield from (f"{said.changed} isn't heard" for said in self.unsaid)
        yield from (f"{changed} isn't heard" for changed in self.undialled)
        yield from (f"{id} isn't heard" for id, _ in self.undone)
        yield from (f"{text}" for text in self.sight.oracle().sequencing(self.accepted))
        if left := self.ground.log.uncommitted():
            yield f"{left} records aren't committed"
        yield from (f"the index lacks {key}, which Redis refused" for key in sorted(self.ground.unannounced))
        yield from (f"{subject} has an unpublished head" for subject in self.ground.heads.unpublished(9))
        for burst, account in self.ground.ledger.read(self.ground.ledger.unsettled()).items():
            yield from (f"{piece} hasn't ended" for piece, one in account.standings.items() if not one.ended)
            if account.settled:
                yield f"{burst} is settled and still open"
        if not self.scheduler.lost.issuperset(f"pump-{n + 1}/rollup" for n in range(self.script.pumps)):
            idle = self.scene.rumours.idle_lookers(self.scene.base)
            yield from (f"{name} opened the tab, and isn't active" for name in idle)

    def _quiet(self) -> bool:
        visiting = any(self._opened.values())
        undone = self.unsent or self.unsaid or self.undialled or self.undone or self.judged
        return not (undone or visiting) and self.ground.at_rest() and not any(self.waiting())

    def _populate(self) -> None:
        self.scheduler.add(Process("api", self._api))
        for n in range(self.script.pumps):
            self.scheduler.add(Process(f"pump-{n + 1}", self.roles.pump))
        for n in range(self.script.workers):
            for pool in (Pool.P0, Pool.P1, Pool.P2):
                self.scheduler.add(Process(f"{pool}-{n + 1}", self.roles.worker(pool)))
            self.scheduler.add(Process(f"push-{n + 1}", self.roles.worker(*map(Pool, PHONES))))
        self.scheduler.add(Process("people", self._people))
        if self.script.desk:
            self.scheduler.add(Process("desk", self._desk))

    def _api(self, process: Process, _: int) -> Threads:
        gateway = build_gateway(self.roles.system(process))
        threads = {"api/gateway": self._sends(gateway.accept, self.unsent, self.accepted.add)}
        if self.script.graph:
            mouth = self.roles.mouth(process)
            threads["api/graph"] = self._says(self.unsaid, lambda said: said(mouth))
        if self.script.devices:
            book = build_device_registry(self.roles.system(process))
            threads["api/phones"] = self._says(self.undialled, lambda changed: dialled(book, self.ground, changed))
        if self.script.takes_back:
            threads["api/retractions"] = self._sends(self._retracts(gateway), self.undone, lambda id: None)
        return threads

    def _retracts(self, gateway: Gateway) -> Accept:
        """Accept retractions as the API does, and note those it has hidden; an outage leaves them to the retractor."""

        def accept(events: Sequence[UpstreamEvent | NotifierError]) -> Sequence[Receipt]:
            receipts = gateway.append(events)
            retractions = [event for event in events if isinstance(event, Retraction)]
            if gateway.hide(retractions):
                self.withdrawals.settles(retractions)
            return receipts

        return accept

    def _sends(
        self, accept: Accept, waiting: deque[tuple[str, bytes]], accepted: Callable[[str], None]
    ) -> Callable[[], None]:
        def send() -> None:
            while True:
                if not waiting:
                    self.scheduler.rest()
                    continue
                try:
                    receipts = accept([read_event(waiting[0][1], self.ground.clock.now()).event])
                except (Unavailable, Full):
                    self.scheduler.sleep(0.5)
                    continue
                id, _ = waiting.popleft()
                if receipts[0].answer in (IntakeStatus.ACCEPTED, IntakeStatus.DUPLICATE):
                    accepted(id)
                else:
                    self.complaints.found.append(f"the gateway refused {id}: {receipts[0].error}")

        return send

    def _says(self, waiting: deque[T], says: Callable[[T], None]) -> Callable[[], None]:
        """One after another, and each until it is heard."""

        def say() -> None:
            while True:
                if not waiting:
                    self.scheduler.rest()
                    continue
                try:
                    says(waiting[0])
                except (Unavailable, Full):
                    self.scheduler.sleep(0.5)
                    continue
                waiting.popleft()

        return say

    def _people(self, process: Process, _: int) -> Threads:
        return {f"people/{name}": self._visitor(name) for name in self._opened}

    def _desk(self, process: Process, _: int) -> Threads:
        return {"desk/operator": operator(self.roles.system(process), self.judged, self.scheduler.sleep)}

    def _visitor(self, name: str) -> Callable[[], None]:
        def live() -> None:
            while True:
                if not self._opened[name]:
                    self.scheduler.rest()
                    continue
                before = len(self.visits.wrong)
                self.visits.visit(self._opened[name][0])
                self._opened[name].popleft()
                for text in self.visits.wrong[before:]:
                    self.scheduler.tell(text)

        return live

    def observe(self, opened: Shown) -> None:
        """Record the activity as the API does. The script injects no faults into it."""
        driven(self.ground.activity.touch([opened.look.member], hour_of(opened.look.now)))
        self.scene.looked(opened.look.viewer.user)

    def _input(self, given: Input) -> None:
        match given:
            case Tweeted():
                self._tweets(given)
            case TakenBack():
                self._takes_back(given)
            case Changed():
                self._changes(given)
            case Resized():
                self.scene.resize(given.account, given.followers)
            case Opened():
                self._opened[given.person].append(given)
                self.scheduler.wake(f"people/{given.person}")
            case Throttled():
                self._throttle(given)
            case Judged():
                self.judged.append(given)

    def _tweets(self, given: Tweeted) -> None:
        now = self.ground.clock.now()
        self.tweets[given.id] = Tweet(
            id=given.id,
            author=given.author,
            mentioned=given.mentioned,
            protected=given.protected,
            text=TEXT,
            at=now,
        )
        self.unsent.append((given.id, body(given, now.isoformat())))
        self.scheduler.wake("api/gateway")

    def _takes_back(self, given: TakenBack) -> None:
        now = self.ground.clock.now()
        self.withdrawals.given[given.id] = Withdrawn(
            what=given.what,
            author=given.author,
            tweet=given.tweet,
            at=now,
            mentioned=given.mentioned,
            sequence=given.sequence,
            text=given.text,
        )
        self.undone.append((given.id, withdrawal(given, now.isoformat())))
        self.scheduler.wake("api/retractions")

    def _changes(self, given: Changed) -> None:
        if given.what.startswith("phone:"):
            self.undialled.append(given)
            self.scheduler.wake("api/phones")
            return
        if not self.script.graph or given.what.partition(":")[0] not in SAID:
            self.scene.change(given)
            return
        pair = given.person, given.whom
        sequence = given.sequence or self._sequences[pair] + 1
        self._sequences[pair] = max(self._sequences[pair], sequence)
        self.unsaid.append(Said(changed=given, sequence=sequence, at=self.ground.clock.now()))
        self.scheduler.wake("api/graph")

    def _throttle(self, given: Throttled) -> None:
        now, self._throttles = self.ground.clock.now(), self._throttles + 1
        throttle = Throttle(
            id=f"t{self._throttles}",
            tier=Tier(given.tier),
            rate=given.rate,
            reason="storm",
            who="amy",
            starts_at=now,
            ends_at=now + given.lasting,
        )
        self.ground.throttles.put(throttle)
