"""The system on memory ports; a test calls its stages in any order."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from notifier import topics
from notifier.config import Settings
from notifier.consumer_loop import StreamProcessor, build_stream_processor
from notifier.domain.audience.inbox_rows import RANGE_MEMBERS
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.moderation import AuthorVerdict, Verdict, validated_verdict
from notifier.domain.delivery.slice_and_pool import Pool, Slice, SliceResult
from notifier.domain.delivery.throttle_and_backpressure import Throttle
from notifier.domain.ids import BurstKey, Kind, Platform, Subject, UserId
from notifier.domain.upstream.validation import FOLLOWED_TYPE, MENTIONED_TYPE, UNFOLLOWED_TYPE
from notifier.flow.delivery.dispatcher import Dispatcher
from notifier.flow.delivery.slice_worker import SliceWorker
from notifier.flow.inbox.cache_invalidating_ports import versioned
from notifier.flow.inbox.inbox import UncachedInbox
from notifier.flow.inbox.page import BurstItem, OpenedInbox, Page
from notifier.flow.intake.gateway import IntakeReceipt, IntakeStatus
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports
from notifier.ports.ledger_claims_deferred_bursts_scan import StoredRow
from notifier.wiring.delivery import build_dispatcher, build_slice_worker
from notifier.wiring.shared_parts import System, build_system
from tests.support.example_event_and_acceptance import accept
from tests.support.fakes.inbox_cache_freshness import MemoryViewerVersionWriter
from tests.support.simulator.durable_state import DurableState
from tests.support.simulator.inbox_visits import run_sync
from tests.support.simulator.population import THRESHOLD, Population

NOVA = Subject(Kind.MENTION, UserId("nova"))
LYRA = Subject(Kind.MENTION, UserId("lyra"))


@dataclass(slots=True)
class Stage:
    """System with the simulator's population and durable state.

    A test may replace `ports` with failing ones.
    """

    collapse: timedelta | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the defaults."""
    state: DurableState = field(default_factory=DurableState)
    population: Population = field(init=False)
    ports: Ports = field(init=False)
    _dispatcher: Dispatcher | None = None
    _event_count: int = 0

    def __post_init__(self) -> None:
        self.population = Population(self.state, crowd=0)
        state = self.state
        ports = Ports(
            log=state.log,
            directory=state.directory,
            sets=state.sets,
            heads=state.heads,
            bursts=state.bursts,
            recent_bursts=state.bursts,
            viewer_lapses=state.viewer_lapses,
            versions=MemoryViewerVersionWriter(state.versions),
            retractions=state.retractions,
            ledger=state.ledger,
            deferred_bursts=state.deferred_bursts,
            claims=state.claims,
            audience_snapshots=state.audience_snapshots,
            inbox=state.inbox,
            follows=state.follows,
            account_flags=state.account_flags,
            devices=state.devices,
            subject_preferences=state.subject_preferences,
            account_preferences=state.account_preferences,
            user_blocks=state.user_blocks,
            active_sets=state.active_sets,
            epochs=state.epochs,
            author_verdicts=state.author_verdicts,
            held_mentions=state.held_mentions,
            erasure_targets=state.erasure_targets,
            throttles=state.throttles,
            dead_letters=state.dead_letters,
            lane_tallies=state.lane_tallies,
            send_log=state.send_log,
            push_suppressions=state.push_suppressions,
            leases=state.leases,
            store_scan=state.store_scan,
            pull=state.pull,
            recent_events=state.recent_events,
            token_buckets=state.token_buckets,
            backpressure=state.backpressure,
            backlog_report=state.backlog_report,
            active_hours=state.active_hours,
            provider_rates=state.provider_rates,
            caps=state.caps,
            inbox_latency=state.inbox_latency,
            circuit_report=state.circuit_report,
            bus=state.bus,
            queue=state.queue,
            providers={Platform.FCM: state.phones},
            platforms=[Platform.FCM],
            clock=state.clock,
            nonces=state.nonces,
            random=lambda: 0.5,
        )
        self.ports = versioned(ports)

    def system(self, **ports: Any) -> System:
        settings = Settings(threshold=THRESHOLD, collapse=self.collapse, **self.settings)
        return build_system(ports=replace(self.ports, **ports), settings=settings, metrics=Metrics(), owner="test")

    def pass_time(self, **by: float) -> None:
        self.state.clock.advance(timedelta(**by))

    def tweet(
        self, *mentioned: str, author: str = "ada", protected: bool = False, id: str = "", of: str = "t1"
    ) -> IntakeReceipt:
        self._event_count += 1
        data = {"tweet": of, "author": author, "mentions": list(mentioned), "protected": protected, "text": of}
        event = {"specversion": "1.0", "type": MENTIONED_TYPE, "source": "tweets", "data": data}
        event |= {"id": id or f"e{self._event_count}", "time": self.state.clock.now().isoformat()}
        receipt = accept(self.system(), event)
        assert receipt.status in (IntakeStatus.ACCEPTED, IntakeStatus.DUPLICATE)
        return receipt

    def followed(self, follower: str, followed: str, *, sequence: int, ended: bool = False) -> None:
        """Send a follow or unfollow of the graph service and index it."""
        data = {"follower": follower, "followed": followed, "sequence": sequence}
        event = {"specversion": "1.0", "source": "graph", "id": f"{follower}/{followed}/{sequence}", "data": data}
        event |= {"type": UNFOLLOWED_TYPE if ended else FOLLOWED_TYPE, "time": self.state.clock.now().isoformat()}
        receipt = accept(self.system(), event)
        assert receipt.status is IntakeStatus.ACCEPTED
        self.sequence()

    def send_event(self, type: str, to: System | None = None, **data: object) -> None:
        """Send any other event; only the gateway has processed it when this returns."""
        self._event_count += 1
        event = {
            "specversion": "1.0",
            "source": "platform",
            "id": f"said{self._event_count}",
            "type": type,
            "data": data,
        }
        event |= {"time": self.state.clock.now().isoformat()}
        receipt = accept(to or self.system(), event)
        assert receipt.status is IntakeStatus.ACCEPTED

    def pump(self, stream: str, **ports: Any) -> StreamProcessor:
        return build_stream_processor(self.system(**ports), stream)

    def sequence(self) -> None:
        """Route, sequence and publish everything in the log."""
        for stream in topics.PARTITION_COUNTS:
            pump = self.pump(stream)
            while pump.step():
                pass
            pump.consumer.close()

    def mention(self, *mentioned: str, author: str = "ada", protected: bool = False, of: str = "t1") -> None:
        self.tweet(*mentioned, author=author, protected=protected, of=of)
        self.sequence()

    def dispatch(self) -> int:
        self._dispatcher = self._dispatcher or build_dispatcher(self.system())
        return self._dispatcher()

    def work(self, *pools: Pool, by: SliceWorker | None = None) -> list[SliceResult]:
        """Work on all queued slices of these pools, or of all pools."""
        work = by or build_slice_worker(self.system())
        return [work(slice_) for pool in pools or Pool for slice_ in self._taken(pool)]

    def deliver(self, rounds: int = 20) -> None:
        """Deliver until no burst is unfinished or deferred. Each round takes a second."""
        for _ in range(rounds):
            self.dispatch()
            self.work()
            self.pass_time(seconds=1)
            if not self.state.ledger.unfinished_or_deferred():
                return
        raise AssertionError(f"not finished: {self.state.ledger.unfinished_or_deferred()}")

    def deliver_others(self) -> None:
        """Deliver what is not throttled."""
        for _ in range(5):
            self.dispatch()
            self.work()
            self.pass_time(seconds=1)

    def throttle(self, tier: Tier, *, rate: float | None = None, seconds: float) -> None:
        now = self.state.clock.now()
        self.state.throttles.put(
            Throttle(
                id="t1",
                tier=tier,
                rate=rate,
                reason="storm",
                operator="amy",
                starts_at=now,
                ends_at=now + timedelta(seconds=seconds),
            )
        )

    def reach(self, user: str, verdict: Verdict) -> None:
        """Set the verdict of an author as an operator does."""
        name, now = UserId(user), self.state.clock.now()
        change = AuthorVerdict(user=name, verdict=verdict, reason="a flood", operator="amy", at=now)
        self.state.author_verdicts.put(
            validated_verdict(change, self.state.author_verdicts.read_current([name]).get(name))
        )

    def held(self) -> list[HeldMention]:
        return list(self.state.held_mentions.waiting())

    def uncached_inbox(self) -> UncachedInbox:
        state = self.state
        return UncachedInbox(people=state.people, timeline=state.timeline, pull=state.pull, clock=state.clock)

    def page(self, person: str) -> Page:
        return run_sync(self.uncached_inbox().page(UserId(person)))

    def items(self, person: str) -> list[BurstItem]:
        """Return the items of the first page that are bursts."""
        return [item for item in self.page(person).items if isinstance(item, BurstItem)]

    def sees(self, person: str) -> list[str]:
        return [str(item.entry.key) for item in self.page(person).items]

    def bursts(self, subject: Subject = NOVA) -> list[BurstKey]:
        return sorted(key for key in self.state.bursts.by_key if key.subject == subject)

    def rows(self, subject: Subject = NOVA) -> list[StoredRow]:
        return [stored for stored in self.state.store_scan.rows() if stored.row.burst.subject == subject]

    def reached(self, subject: Subject = NOVA) -> set[int]:
        """Return the members that the rows reach."""
        return {member for stored in self.rows(subject) for member in members_of(stored)}

    def _taken(self, pool: Pool) -> list[Slice]:
        waiting = self.state.queue.waiting[pool]
        slices = list(waiting)
        waiting.clear()
        return slices


class Openings(list[OpenedInbox]):
    """Observer that records each opened inbox."""

    def observe(self, opened: OpenedInbox) -> None:
        self.append(opened)


def members_of(stored: StoredRow) -> list[int]:
    """Return the members that the row reaches."""
    return [stored.member_range * RANGE_MEMBERS + place for place in stored.row.offsets().tolist()]
