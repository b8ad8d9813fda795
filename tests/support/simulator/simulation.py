"""Runs a script: builds the processes, feeds inputs and drains all work."""

import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from notifier.codec import UpstreamEvent, read_event
from notifier.config import Settings
from notifier.domain.audience.activity import hour_of
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.retraction import Retraction
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS, Pool
from notifier.domain.delivery.throttle_and_backpressure import Throttle
from notifier.domain.errors import DiskFull, NotifierError, Unavailable
from notifier.domain.upstream.validation import DELETED_TYPE, EDITED_TYPE, ERASED_TYPE, MENTIONED_TYPE, PROTECTED_TYPE
from notifier.flow.inbox.page import OpenedInbox
from notifier.flow.intake.gateway import Gateway, IntakeReceipt, IntakeStatus
from notifier.wiring.indexers_and_device_registry import build_device_registry
from notifier.wiring.intake import build_gateway
from tests.support.oracle import RetractionUpdate, Tweet
from tests.support.simulator.audience_snapshot_observer import SnapshotObserver
from tests.support.simulator.durable_state import DurableState
from tests.support.simulator.inbox_visits import Visits, run_sync
from tests.support.simulator.oracle_input_reader import StateReader
from tests.support.simulator.population import VIEWERS, Population
from tests.support.simulator.push_observer import PushObserver
from tests.support.simulator.retraction_tracker import RetractionTracker
from tests.support.simulator.roles import Roles, Threads
from tests.support.simulator.scenarios.devices import apply_device_change
from tests.support.simulator.scenarios.moderation import operator
from tests.support.simulator.scheduler_and_faults import Process, Scheduler
from tests.support.simulator.script import (
    Changed,
    Input,
    Opened,
    Resized,
    Retracted,
    Script,
    Throttled,
    Tweeted,
    VerdictChanged,
)
from tests.support.simulator.user_changes import LOGGED_CHANGES, PendingChange

# Errors logged by the loops of a run.


class LoggedErrors(logging.Handler):
    """Collects errors that the loops log. Each is a bug, because outages are logged as warnings."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else ""
        self.messages.append(f"{record.getMessage()} {cause!r}")

    @contextmanager
    def recording(self) -> Iterator[None]:
        loggers = [logging.getLogger(name) for name in ("notifier.consumer_loop", "workers.slice_runner_and_pools")]
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


# Request bodies of the tweet service for the script's inputs.

TEXT = "hello"
RETRACTION_TYPES = {"delete": DELETED_TYPE, "edit": EDITED_TYPE, "protect": PROTECTED_TYPE, "erase": ERASED_TYPE}


def tweet_body(tweeted: Tweeted, time: str) -> bytes:
    data = {
        "tweet": tweeted.id,
        "author": tweeted.author,
        "mentions": list(tweeted.mentioned),
        "text": TEXT,
        "protected": tweeted.protected,
    }
    event = {
        "specversion": "1.0",
        "type": MENTIONED_TYPE,
        "source": "tweets",
        "id": tweeted.id,
        "time": time,
        "data": data,
    }
    return json.dumps(event).encode()


def retraction_body(retracted: Retracted, time: str) -> bytes:
    data: dict[str, object] = (
        {"tweet": retracted.tweet, "author": retracted.author} if retracted.tweet else {"user": retracted.author}
    )
    if retracted.what == "edit":
        data |= {"mentions": list(retracted.mentioned), "text": retracted.text, "sequence": retracted.sequence}
    event = {
        "specversion": "1.0",
        "type": RETRACTION_TYPES[retracted.what],
        "source": "tweets",
        "id": retracted.id,
        "time": time,
    }
    return json.dumps(event | {"data": data}).encode()


T = TypeVar("T")
Accept = Callable[[Sequence[UpstreamEvent | NotifierError]], Sequence[IntakeReceipt]]

API_PROCESSES = 2
"""API processes, each with caches of its own."""
DRAIN_STEPS = 40_000
CHECK_EVERY = 40
SLOWER = 4.0
"""Factor on all sleeps once the script is over, which leaves fewer steps to order."""


class Simulation:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.state = DurableState()
        self.population = Population(
            self.state, script.crowd, script.platforms, graph=script.graph, phones=not script.devices
        )
        self.tweets: dict[str, Tweet] = {}
        self.accepted: set[str] = set()
        self.pending_events: deque[tuple[str, bytes]] = deque()
        """Events with their bodies, which stay the same on every attempt."""
        self.pending_changes: deque[PendingChange] = deque()
        self.pending_device_changes: deque[Changed] = deque()
        self.pending_verdicts: deque[VerdictChanged] = deque()
        self.pending_retractions: deque[tuple[str, bytes]] = deque()
        """Retractions with their bodies, like `pending_events`."""
        self.retraction_tracker = RetractionTracker(self.state)
        self.state.log.on_retraction = self.retraction_tracker.note
        self.logged_errors = LoggedErrors()
        self.scheduler = Scheduler(script, self.state, self._input)
        self.state_reader = StateReader(self.state, self.population, self.tweets, self.retraction_tracker)
        self.push_observer = PushObserver(self.state_reader)
        self.snapshot_observer = SnapshotObserver(self.population, self.scheduler.running)
        settings = Settings(threshold=script.threshold, collapse=script.collapse, roll_up_every=script.roll_up_every)
        self.roles = Roles(self.state, self.scheduler, settings, self.push_observer, self.snapshot_observer, script)
        inboxes = [self.roles.inbox(self if script.roll_up_every else None) for _ in range(API_PROCESSES)]
        self.visits = Visits(inboxes, self.state_reader, self.scheduler.sleep, marked=self.push_observer.marked)
        self.is_drained = False
        self._opened: dict[str, deque[Opened]] = {name: deque() for name in VIEWERS}
        self._throttles = 0
        self._sequences: Counter[tuple[str, str]] = Counter()

    def run(self) -> None:
        """Run the script, then let all work finish; `is_drained` is whether it did."""
        with self.logged_errors.recording():
            self._populate()
            self.scheduler.advance(self.script.steps)
            self.scheduler.calm()
            self.scheduler.pace = SLOWER
            for _ in range(DRAIN_STEPS // CHECK_EVERY):
                self.scheduler.advance(CHECK_EVERY)
                if self._is_drained():
                    break
                self.state.skip()
            self.is_drained = self._is_drained()
            self.scheduler.close()

    def waiting(self) -> Iterator[str]:
        """Describe the work that is left."""
        yield from (f"{id} isn't accepted" for id, _ in self.pending_events)
        yield from (f"{change.changed} isn't accepted" for change in self.pending_changes)
        yield from (f"{changed} isn't accepted" for changed in self.pending_device_changes)
        yield from (f"{id} isn't accepted" for id, _ in self.pending_retractions)
        yield from (f"{text}" for text in self.state_reader.oracle().sequencing_violations(self.accepted))
        if uncommitted := self.state.log.uncommitted():
            yield f"{uncommitted} records aren't committed"
        yield from (f"the index lacks {key}, which Redis refused" for key in sorted(self.state.unannounced))
        yield from (f"{subject} has an unpublished head" for subject in self.state.heads.unpublished(9))
        for burst, progress in self.state.ledger.read(self.state.ledger.unfinished_or_deferred()).items():
            yield from (
                f"{slice_} hasn't ended"
                for slice_, slice_progress in progress.slice_states.items()
                if not slice_progress.final_entry
            )
            if progress.is_finished:
                yield f"{burst} is settled and still open"
        if not self.scheduler.lost.issuperset(f"pump-{n + 1}/rollup" for n in range(self.script.pumps)):
            idle = self.population.in_flight_changes.missing_from_active_sets(self.population.base)
            yield from (f"{name} opened the inbox, and isn't active" for name in idle)

    def _is_drained(self) -> bool:
        visiting = any(self._opened.values())
        pending = (
            self.pending_events
            or self.pending_changes
            or self.pending_device_changes
            or self.pending_retractions
            or self.pending_verdicts
        )
        return not (pending or visiting) and self.state.at_rest() and not any(self.waiting())

    def _populate(self) -> None:
        self.scheduler.add(Process("api", self._api))
        for n in range(self.script.pumps):
            self.scheduler.add(Process(f"pump-{n + 1}", self.roles.pump))
        for n in range(self.script.workers):
            for pool in (Pool.P0, Pool.P1, Pool.P2):
                self.scheduler.add(Process(f"{pool}-{n + 1}", self.roles.worker(pool)))
            self.scheduler.add(Process(f"push-{n + 1}", self.roles.worker(*map(Pool, PUSH_STEPS))))
        self.scheduler.add(Process("people", self._people))
        if self.script.has_operator:
            self.scheduler.add(Process("operator", self._operator))

    def _api(self, process: Process, _: int) -> Threads:
        gateway = build_gateway(self.roles.system(process))
        threads = {"api/gateway": self._send_events(gateway.accept, self.pending_events, self.accepted.add)}
        if self.script.graph:
            api = self.roles.change_api(process)
            threads["api/graph"] = self._send_each(self.pending_changes, lambda change: change(api))
        if self.script.devices:
            registry = build_device_registry(self.roles.system(process))
            threads["api/phones"] = self._send_each(
                self.pending_device_changes, lambda changed: apply_device_change(registry, self.state, changed)
            )
        if self.script.has_retractions:
            threads["api/retractions"] = self._send_events(
                self._retraction_acceptor(gateway), self.pending_retractions, lambda id: None
            )
        return threads

    def _retraction_acceptor(self, gateway: Gateway) -> Accept:
        """Accept retractions as the API does, and note those it has hidden; an outage leaves them to the retractor."""

        def accept(events: Sequence[UpstreamEvent | NotifierError]) -> Sequence[IntakeReceipt]:
            receipts = gateway.append(events)
            retractions = [event for event in events if isinstance(event, Retraction)]
            if gateway.hide(retractions):
                self.retraction_tracker.note_applied(retractions)
            return receipts

        return accept

    def _send_events(
        self, accept: Accept, waiting: deque[tuple[str, bytes]], accepted: Callable[[str], None]
    ) -> Callable[[], None]:
        def send() -> None:
            while True:
                if not waiting:
                    self.scheduler.sleep_until_woken()
                    continue
                try:
                    receipts = accept([read_event(waiting[0][1], self.state.clock.now()).event])
                except (Unavailable, DiskFull):
                    self.scheduler.sleep(0.5)
                    continue
                id, _ = waiting.popleft()
                if receipts[0].status in (IntakeStatus.ACCEPTED, IntakeStatus.DUPLICATE):
                    accepted(id)
                else:
                    self.logged_errors.messages.append(f"the gateway refused {id}: {receipts[0].error}")

        return send

    def _send_each(self, waiting: deque[T], send: Callable[[T], None]) -> Callable[[], None]:
        """Return a thread that sends each item until it is accepted."""

        def say() -> None:
            while True:
                if not waiting:
                    self.scheduler.sleep_until_woken()
                    continue
                try:
                    send(waiting[0])
                except (Unavailable, DiskFull):
                    self.scheduler.sleep(0.5)
                    continue
                waiting.popleft()

        return say

    def _people(self, process: Process, _: int) -> Threads:
        return {f"people/{name}": self._visitor(name) for name in self._opened}

    def _operator(self, process: Process, _: int) -> Threads:
        return {
            "operator/moderation": operator(self.roles.system(process), self.pending_verdicts, self.scheduler.sleep)
        }

    def _visitor(self, name: str) -> Callable[[], None]:
        def live() -> None:
            while True:
                if not self._opened[name]:
                    self.scheduler.sleep_until_woken()
                    continue
                before = len(self.visits.wrong)
                self.visits.visit(self._opened[name][0])
                self._opened[name].popleft()
                for text in self.visits.wrong[before:]:
                    self.scheduler.tell(text)

        return live

    def observe(self, opened: OpenedInbox) -> None:
        """Record the activity as the API does. The script injects no faults into it."""
        run_sync(self.state.activity.touch([opened.view.member], hour_of(opened.view.now)))
        self.population.note_visit(opened.view.viewer.user)

    def _input(self, input_: Input) -> None:
        match input_:
            case Tweeted():
                self._post_tweet(input_)
            case Retracted():
                self._retract(input_)
            case Changed():
                self._change(input_)
            case Resized():
                self.population.resize(input_.account, input_.followers)
            case Opened():
                self._opened[input_.person].append(input_)
                self.scheduler.wake(f"people/{input_.person}")
            case Throttled():
                self._throttle(input_)
            case VerdictChanged():
                self.pending_verdicts.append(input_)

    def _post_tweet(self, tweeted: Tweeted) -> None:
        now = self.state.clock.now()
        self.tweets[tweeted.id] = Tweet(
            id=tweeted.id,
            author=tweeted.author,
            mentioned=tweeted.mentioned,
            protected=tweeted.protected,
            text=TEXT,
            at=now,
        )
        self.pending_events.append((tweeted.id, tweet_body(tweeted, now.isoformat())))
        self.scheduler.wake("api/gateway")

    def _retract(self, retracted: Retracted) -> None:
        now = self.state.clock.now()
        self.retraction_tracker.by_event[retracted.id] = RetractionUpdate(
            kind=retracted.what,
            author=retracted.author,
            tweet=retracted.tweet,
            at=now,
            mentioned=retracted.mentioned,
            sequence=retracted.sequence,
            text=retracted.text,
        )
        self.pending_retractions.append((retracted.id, retraction_body(retracted, now.isoformat())))
        self.scheduler.wake("api/retractions")

    def _change(self, changed: Changed) -> None:
        if changed.what.startswith("phone:"):
            self.pending_device_changes.append(changed)
            self.scheduler.wake("api/phones")
            return
        if not self.script.graph or changed.what.partition(":")[0] not in LOGGED_CHANGES:
            self.population.change(changed)
            return
        pair = changed.person, changed.whom
        sequence = changed.sequence or self._sequences[pair] + 1
        self._sequences[pair] = max(self._sequences[pair], sequence)
        self.pending_changes.append(PendingChange(changed=changed, sequence=sequence, at=self.state.clock.now()))
        self.scheduler.wake("api/graph")

    def _throttle(self, throttled: Throttled) -> None:
        now, self._throttles = self.state.clock.now(), self._throttles + 1
        throttle = Throttle(
            id=f"t{self._throttles}",
            tier=Tier(throttled.tier),
            rate=throttled.rate,
            reason="storm",
            operator="amy",
            starts_at=now,
            ends_at=now + throttled.lasting,
        )
        self.state.throttles.put(throttle)
