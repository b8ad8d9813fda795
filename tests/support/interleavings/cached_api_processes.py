"""Two API processes with cached inboxes on memory ports, cheap to build."""

from asyncio import AbstractEventLoop as EventLoop
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from notifier.domain.audience.account_flags import Flag, FlagRow
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.bursts.sequencer import Head
from notifier.domain.errors import NotFound
from notifier.domain.ids import BurstKey, Kind, Lane, Member, Subject, UserId
from notifier.domain.users.visibility import SeenToken
from notifier.flow.inbox.inbox import Inbox
from notifier.flow.inbox.page_deadline_and_breaker import NoDeadline, PageDeadline
from notifier.flow.inbox.shared_loads import DirectLoads, Singleflight
from notifier.flow.inbox.viewer_facts_invalidation_and_check import Invalidation
from notifier.flow.sequencing.burst_publishing_and_planning import Publisher
from notifier.flow.sequencing.live_publisher import LivePublisher
from notifier.metrics import Metrics
from notifier.ports.all_ports import ReadPorts
from notifier.ports.inbox_cache_freshness import Scope
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from notifier.ports.viewers_preferences_user_blocks import Preferences
from notifier.wiring.inbox import build_inbox, build_versioned_preferences
from tests.support.fakes.activity_member_sets_and_follows import MemoryActivity, MemoryMemberSets
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts, MemoryHeads
from tests.support.fakes.clock_and_nonces import START, CountedNonces, ManualClock
from tests.support.fakes.inbox_cache_freshness import (
    MemoryBurstChanges,
    MemoryVersions,
    MemoryViewerLapses,
    MemoryViewerVersionReader,
    MemoryViewerVersionWriter,
)
from tests.support.fakes.inbox_rows_and_audience_snapshots import (
    MemoryAudienceSnapshots,
    MemoryInboxStore,
    MemoryTimeline,
)
from tests.support.fakes.ledger_claims_deferred_bursts import MemoryClaims, MemoryLedger
from tests.support.fakes.live_bus import MemoryLiveBus
from tests.support.fakes.preferences_and_user_blocks import MemoryPreferences
from tests.support.fakes.pull_index import MemoryPullIndex
from tests.support.fakes.user_directory_and_account_flags import MemoryAccountFlags, MemoryDirectory
from tests.support.fakes.viewer_facts import MemoryPeople
from tests.support.simulator.inbox_visits import run_sync
from tests.support.simulator.port_proxy import Gate, proxied
from tests.support.simulator.script import Part

KIM, LEE, NOVA, LYRA = (UserId(name) for name in ("kim", "lee", "nova", "lyra"))
MEMBERS = {user: Member(number) for number, user in enumerate((KIM, LEE, NOVA, LYRA), start=1)}
OF_NOVA, OF_LYRA = Subject(Kind.MENTION, NOVA), Subject(Kind.MENTION, LYRA)
FIRST, SECOND = BurstKey(OF_NOVA, 1), BurstKey(OF_NOVA, 2)
OTHERS = tuple(BurstKey(OF_LYRA, seq) for seq in (1, 2, 3))
SINCE = START - timedelta(days=7)
METRICS = Metrics()
"""One for all instances: creating a registry takes longer than running an order."""

PATIENT = timedelta(hours=1)
"""Time limit that no order reaches."""

T = TypeVar("T")

ShownInbox = tuple[Sequence[str], int] | None
"""The bursts on a first page and the badge's count; None where the user does not exist."""
BEFORE: ShownInbox = ([str(FIRST)], 1)


class CachedApiProcesses:
    """Kim, a VIP, follows nova, who was mentioned a minute ago. Lee follows lyra, who was mentioned three times."""

    def __init__(self, gate: Gate, *, warm: Collection[int], event_loop: EventLoop | None = None) -> None:
        """`warm` are the processes that have Kim's page. With `event_loop`, requests to process 0 share loads."""
        self.clock, self.nonces = ManualClock(), CountedNonces()
        self.bursts, self.directory = MemoryBursts(), MemoryDirectory()
        self.directory.enrol([DirectoryEntry(user=user, member=member) for user, member in MEMBERS.items()])
        flags = MemoryAccountFlags()
        flags.write([FlagRow(flag=Flag.VIP, member=MEMBERS[KIM], is_set=True, sequence=1)])
        self.people = MemoryPeople(self.directory, flags=flags)
        self.bus, self.heads, self.pull = MemoryLiveBus(), MemoryHeads(), MemoryPullIndex(self.clock)
        self.versions = MemoryVersions(clock=self.clock, bus=self.bus)
        self.people.follow(KIM, OF_NOVA, SINCE)
        self.people.follow(LEE, OF_LYRA, SINCE)
        self._gate, self._event_loop = gate, event_loop
        self._mention_both()
        self.inboxes = [self._inbox(shares_loads=event_loop is not None), self._inbox()]
        self._follow_feed(warm=warm)
        self.token = SeenToken(viewer=KIM, as_of=self.clock.now(), newer=frozenset())

    def open(self, process: int, user: UserId = KIM, *, limit: int = 20) -> ShownInbox:
        return self._run(process, self.open_async(process, user, limit=limit))

    async def open_async(self, process: int, user: UserId = KIM, *, limit: int = 20) -> ShownInbox:
        try:
            opening = await self.inboxes[process].open(user, limit=limit)
        except NotFound:
            return None
        assert opening.badge is not None
        return [str(item.entry.key) for item in opening.page.items], opening.badge.count

    def fail_over(self, replica: Mapping[Scope, str]) -> None:
        """Let a server take over that has only these versions."""
        self.versions.wipe()
        for scope, version in replica.items():
            self.versions.set_version(scope, version)
        self.versions.server_state += 1

    def preferences(self) -> Preferences:
        return build_versioned_preferences(self._reads())

    def invalidation(self) -> Invalidation:
        return Invalidation(
            versions=self._cache(MemoryViewerVersionWriter(self.versions), "versions"),
            lapses=self.store(MemoryViewerLapses(self.bursts), "lapses"),
            nonces=self.nonces,
        )

    def publisher(self) -> Publisher:
        return Publisher(
            heads=self.heads,
            bursts=self.store(self.bursts, "bursts"),
            sets=MemoryMemberSets(self.directory),
            ledger=MemoryLedger(MemoryClaims()),
            pull=self._cache(self.pull, "pull"),
            live_publisher=LivePublisher(bus=self._cache(self.bus, "bus"), has_missed_updates=False),
            clock=self.clock,
            nonces=self.nonces,
            metrics=METRICS,
        )

    def publish(self, burst: Burst) -> None:
        """Publish the burst, or what is left of it, as a coordinator does."""
        head = self.heads.load([burst.key.subject])[burst.key.subject]
        outbox = (replace(burst, version=head.version + 1),)
        seq = max(head.seq, burst.key.seq)
        decided = replace(head, version=head.version + 1, nonce=self.nonces.new(), seq=seq, outbox=outbox)
        won, _ = self.publisher().swap_and_publish([decided])
        assert won

    def _mention_both(self) -> None:
        for key in (FIRST, *OTHERS):
            self.bursts.write([burst_of(key, self.clock)], [])
        for key in (FIRST, OTHERS[-1]):
            head = replace(Head.empty(key.subject), version=1, nonce="published", seq=key.seq, announced=key.seq)
            assert self.heads.compare_and_set([head]) == [True]

    def _follow_feed(self, *, warm: Collection[int]) -> None:
        """Let both processes follow the feed for a minute and read it. The warm ones open Kim's inbox."""
        self._look_up()
        self.clock.advance(timedelta(minutes=1))
        self.pull.generation()
        self.pull.rebuild([[*self.bursts.by_key.values()]], SINCE, self.clock.now())
        self._look_up()
        for process in warm:
            assert self.open(process) == BEFORE

    def _look_up(self) -> None:
        for process, inbox in enumerate(self.inboxes):
            self._run(process, inbox.facts.lookups.look_up((), may_wait=True))

    def _run(self, process: int, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._event_loop is not None and process == 0:
            return self._event_loop.run_until_complete(coroutine)
        return run_sync(coroutine)

    def _inbox(self, *, shares_loads: bool = False) -> Inbox:
        return build_inbox(
            self._reads(),
            metrics=METRICS,
            new_shared_loads=Singleflight if shares_loads else DirectLoads,
            max_lookup_wait=PATIENT if shares_loads else None,
            deadline=PageDeadline(PATIENT) if shares_loads else NoDeadline(),
            cache_megabytes=10,
        )

    def _reads(self) -> ReadPorts:
        return ReadPorts(
            people=self.store(self.people, "people"),
            preferences=self.store(MemoryPreferences(self.people), "preferences"),
            timeline=self.store(
                MemoryTimeline(self.bursts, MemoryInboxStore(MemoryAudienceSnapshots(self.clock))), "timeline"
            ),
            burst_changes=self.store(MemoryBurstChanges(self.bursts), "burst_changes"),
            pull=self._cache(self.pull, "pull"),
            activity=MemoryActivity(),
            live=self.bus,
            versions=self._cache(MemoryViewerVersionReader(self.versions), "inbox_versions"),
            clock=self.clock,
            nonces=self.nonces,
        )

    def store(self, port: Any, name: str) -> Any:
        """Return the port as the processes call it."""
        return proxied(port, name, Part.STORE, self._gate)

    def _cache(self, port: Any, name: str) -> Any:
        return proxied(port, name, Part.CACHE, self._gate)


def burst_of(key: BurstKey, clock: ManualClock) -> Burst:
    return Burst(
        key=key,
        version=1,
        opened_at=clock.now(),
        accepted_at=clock.now(),
        lane=Lane.CELEBRITY,
        verdict=Verdict.ALL,
        mentioners=(UserId("ada"),),
        more_mentioners=False,
        count=1,
        first_of_day=False,
        restricted_to=None,
        tweet=f"t{key.seq}",
        text="",
    )
