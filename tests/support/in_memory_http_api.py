"""The whole system in memory behind its HTTP API, with a client for tests."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote

import httpx
from litestar import Litestar
from litestar.testing import TestClient

from notifier import topics
from notifier.api.app import create
from notifier.api.auth.authenticators import Authenticator, issue_token
from notifier.api.auth.service_and_installation_keys import InstallationKeys
from notifier.api.background.activity_recorder import Pause
from notifier.config import InboxLimits, Settings
from notifier.consumer_loop import build_stream_processor
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.bursts.moderation import MentionsAllowed
from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.ids import Kind, Member, Platform, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.flow.inbox.cache_invalidating_ports import versioned
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.ports.audience import ShardBitmap
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from notifier.wiring.delivery import build_dispatcher, build_slice_worker
from notifier.wiring.shared_parts import build_system
from tests.support.breakable_ports import (
    BreakableActivity,
    BreakableBackpressure,
    BreakableBurstChanges,
    BreakableInboxLatencyReport,
    BreakableLog,
    BreakableRecentEvents,
    BreakableThrottles,
    BreakableTimeline,
    PortErrors,
)
from tests.support.cache_invalidating_users import CacheInvalidatingPeople
from tests.support.example_event_and_acceptance import event
from tests.support.fakes.activity_member_sets_and_follows import (
    MemoryActiveHours,
    MemoryActiveSets,
    MemoryFollows,
    MemoryMemberSets,
)
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts, MemoryHeads
from tests.support.fakes.clock_and_nonces import CountedNonces, ManualClock
from tests.support.fakes.dead_letters import MemoryDeadLetters, MemoryDeadLetterTallies
from tests.support.fakes.devices import MemoryDevices
from tests.support.fakes.epochs_leases_queues_throttles import MemoryEpochs, MemoryLeases, MemoryQueue
from tests.support.fakes.event_log import MemoryEventLog
from tests.support.fakes.inbox_cache_freshness import (
    MemoryVersions,
    MemoryViewerLapses,
    MemoryViewerVersionReader,
    MemoryViewerVersionWriter,
)
from tests.support.fakes.inbox_rows_and_audience_snapshots import MemoryAudienceSnapshots, MemoryInboxStore
from tests.support.fakes.ledger_claims_deferred_bursts import MemoryClaims, MemoryDeferredBursts, MemoryLedger
from tests.support.fakes.live_bus import MemoryLiveBus
from tests.support.fakes.moderation import MemoryAuthorVerdicts, MemoryHeldMentions
from tests.support.fakes.preferences_and_user_blocks import (
    MemoryAccountPreferences,
    MemoryPreferences,
    MemorySubjectPreferences,
    MemoryUserBlocks,
)
from tests.support.fakes.pull_index import MemoryPullIndex
from tests.support.fakes.push import (
    MemoryCircuitReport,
    MemoryFrequencyCaps,
    MemoryProvider,
    MemoryProviderRates,
    MemoryPushSuppressions,
    MemorySendLog,
)
from tests.support.fakes.recent_events_and_load_limits import MemoryBacklogReport, MemoryTokenBuckets
from tests.support.fakes.retractions_and_text_erasure import MemoryErasureTargets, MemoryRetractions
from tests.support.fakes.store_scan import MemoryStoreScan
from tests.support.fakes.user_directory_and_account_flags import MemoryAccountFlags, MemoryDirectory
from tests.support.fakes.viewer_facts import MemoryPeople

SECRET = "a secret of these tests, and of nobody else"
SERVICE_KEY = "the tweet service's key"


PATIENT = Settings(inbox=InboxLimits(deadline=timedelta(seconds=10)))
"""A busy machine is slow, and a late page would be partial."""


class MemoryBackend:
    """System with a few users: nova has the followers `u1`, `u2` and `u3`; ada and bob write tweets.

    The account of `gone` is deleted, and `shy` does not want to be mentioned.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.port_errors = PortErrors()
        self.clock = clock = ManualClock()
        self.phones = MemoryProvider(clock)
        self.keys = InstallationKeys(secret=SECRET, service_key=SERVICE_KEY)
        self.directory = MemoryDirectory()
        self.sets = MemoryMemberSets(self.directory)
        self.bursts = MemoryBursts()
        self.queue = MemoryQueue()
        self.activity = BreakableActivity(errors=self.port_errors)
        self.active_hours = MemoryActiveHours(self.activity, clock)
        self.latency_report = BreakableInboxLatencyReport(clock, errors=self.port_errors)
        self.throttles = BreakableThrottles(self.port_errors)
        self.recent = BreakableRecentEvents(clock, errors=self.port_errors)
        self.pull = pull = MemoryPullIndex(clock)
        self.bus = MemoryLiveBus()
        self.versions = MemoryVersions(clock=clock, bus=self.bus)
        self.people: MemoryPeople = CacheInvalidatingPeople(self.directory, self.versions)
        snapshots, claims = MemoryAudienceSnapshots(clock), MemoryClaims()
        inbox, ledger = MemoryInboxStore(snapshots), MemoryLedger(claims)
        self.log = BreakableLog(MemoryEventLog(clock), self.port_errors)
        held, letters = MemoryHeldMentions(clock), MemoryDeadLetters()
        ports = Ports(
            log=self.log,
            directory=self.directory,
            sets=self.sets,
            heads=MemoryHeads(),
            bursts=self.bursts,
            recent_bursts=self.bursts,
            viewer_lapses=MemoryViewerLapses(self.bursts),
            versions=MemoryViewerVersionWriter(self.versions),
            retractions=MemoryRetractions(self.bursts),
            ledger=ledger,
            deferred_bursts=MemoryDeferredBursts(ledger),
            claims=claims,
            audience_snapshots=snapshots,
            inbox=inbox,
            follows=MemoryFollows(self.people),
            account_flags=MemoryAccountFlags(),
            devices=MemoryDevices(clock),
            subject_preferences=MemorySubjectPreferences(self.people),
            account_preferences=MemoryAccountPreferences(self.people),
            user_blocks=MemoryUserBlocks(self.people),
            active_sets=MemoryActiveSets(),
            epochs=MemoryEpochs(),
            author_verdicts=MemoryAuthorVerdicts(),
            held_mentions=held,
            erasure_targets=MemoryErasureTargets(held, letters),
            throttles=self.throttles,
            dead_letters=letters,
            lane_tallies=MemoryDeadLetterTallies(),
            send_log=MemorySendLog(),
            push_suppressions=MemoryPushSuppressions(self.people, self.directory),
            leases=MemoryLeases(),
            store_scan=MemoryStoreScan(self.bursts, ledger, snapshots, inbox),
            pull=pull,
            recent_events=self.recent,
            token_buckets=MemoryTokenBuckets(clock),
            backpressure=BreakableBackpressure(clock, errors=self.port_errors),
            backlog_report=MemoryBacklogReport(clock),
            active_hours=self.active_hours,
            provider_rates=MemoryProviderRates(),
            caps=MemoryFrequencyCaps(),
            inbox_latency=self.latency_report,
            circuit_report=MemoryCircuitReport(clock),
            bus=self.bus,
            queue=self.queue,
            providers={Platform.FCM: self.phones},
            platforms=[Platform.FCM],
            clock=clock,
            nonces=CountedNonces(),
            random=lambda: 0.5,
        )
        self.metrics = Metrics()
        self.ports = versioned(self.adapt_ports(ports))
        reads = ReadPorts(
            people=self.people,
            preferences=MemoryPreferences(self.people),
            timeline=BreakableTimeline(self.bursts, inbox, self.port_errors),
            burst_changes=BreakableBurstChanges(self.bursts, self.port_errors),
            pull=pull,
            activity=self.activity,
            live=self.bus,
            versions=MemoryViewerVersionReader(self.versions),
            clock=clock,
            nonces=CountedNonces(),
        )
        self.reads = self.adapt_read_ports(reads)
        self.system = build_system(ports=self.ports, settings=settings or PATIENT, metrics=self.metrics, owner="a test")
        self._pumps = [build_stream_processor(self.system, stream) for stream in topics.GROUPS]
        self._populate()
        self.system.live_publisher.flush()  # as a pump does when it starts

    def adapt_ports(self, ports: Ports) -> Ports:
        """Override to use other adapters."""
        return ports

    def adapt_read_ports(self, reads: ReadPorts) -> ReadPorts:
        return reads

    def app(
        self,
        pause: Pause = asyncio.sleep,
        empty: Callable[[], bool] = lambda: False,
        *,
        authenticator: Authenticator | None = None,
    ) -> Litestar:
        return create(self.system, self.reads, self.keys, pause, empty, authenticator=authenticator)

    def sequence(self) -> None:
        """Sequence or refuse every accepted event."""
        for number in range(len(self._pumps)):
            self.pump(number)

    def pump(self, number: int) -> None:
        """Process all waiting records of one stream; number 0 is the router's."""
        while self._pumps[number].step():
            pass

    def deliver(self) -> None:
        """Deliver every burst."""
        work = build_slice_worker(self.system)
        ledger, queued, open_before = self.ports.ledger, 1, -1
        while queued or len(ledger.unfinished_bursts()) != open_before:
            open_before = len(ledger.unfinished_bursts())
            queued = build_dispatcher(self.system)()  # a new dispatcher reads what the last one deferred
            for pool in Pool:
                while slice_ := self.queue.take(pool):
                    work(slice_)

    def token(self, user: str) -> str:
        return issue_token(self.keys, UserId(user), self.clock.now())

    def _populate(self) -> None:
        names = ["u1", "u2", "u3", "ada", "bob", "nova", "quiet", "gone"]
        self.directory.enrol(
            [DirectoryEntry(user=UserId(n), member=Member(i), deleted=n == "gone") for i, n in enumerate(names, 1)]
        )
        self.directory.enrol([DirectoryEntry(user=UserId("shy"), member=Member(9))])
        self.people.patch_account(UserId("shy"), AccountPreferencesPatch(mentions=MentionsAllowed.NONE))
        nova = Subject(Kind.MENTION, UserId("nova"))
        followers = from_offsets([1, 2, 3])
        self.sets.put([ShardBitmap(kind=SetKind.FOLLOWERS, owner=nova, shard=0, bits=followers)])
        self.sets.put([ShardBitmap(kind=SetKind.ACTIVE_24H, owner=None, shard=0, bits=followers)])
        self.sets.put_follower_counts({nova: FollowerCounts(total=3, by_shard=(3,))})
        for user in ("u1", "u2", "u3"):
            self.people.follow(UserId(user), nova, self.clock.now() - timedelta(days=1))


@dataclass(slots=True)
class ApiClient:
    """Sends the requests of services and users to the API of a backend."""

    backend: MemoryBackend
    http: TestClient[Litestar]

    @property
    def service(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {SERVICE_KEY}"}

    def post(self, body: object, content_type: str = "application/cloudevents+json") -> httpx.Response:
        """Send `body` as JSON, or bytes unchanged."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.post("/v1/events", content=content, headers={**self.service, "Content-Type": content_type})

    def batch(self, *events: object) -> httpx.Response:
        return self.post(list(events), "application/cloudevents-batch+json")

    def get_event(self, id: str, **query: str) -> httpx.Response:
        return self.http.get(f"/v1/events/{id}", params=query, headers=self.service)

    def refusals(self, id: str) -> dict[str, str | None]:
        """Return the refusal of each account after the event was sequenced."""
        self.backend.sequence()
        return {account["account"]: account["refusal"] for account in self.get_event(id).json()["accounts"]}

    def inbox(self, user: str, headers: Mapping[str, str] | None = None, **query: str | int) -> httpx.Response:
        return self.http.get("/v1/inbox", params=query, headers={**self.bearer(user), **(headers or {})})

    def gaps(
        self, user: str, query: Mapping[str, str | int], subject: str = "mention:nova", tag: str = ""
    ) -> httpx.Response:
        path = f"/v1/subjects/{quote(subject, safe='')}/bursts"
        return self.http.get(path, params=query, headers={**self.bearer(user), "If-None-Match": tag})

    def unread(self, user: str) -> object:
        return self.http.get("/v1/inbox/unread", headers=self.bearer(user)).json()

    def put(self, path: str, user: str, body: object) -> httpx.Response:
        return self.http.put(path, json=body, headers=self.bearer(user))

    def mention(self, author: str = "ada", account: str = "nova") -> None:
        """Post a visible tweet and sequence it."""
        number = len(self.backend.bursts.mentions)
        assert self.post(event(id=f"mention-{number}", author=author, mentions=[account])).status_code == 202
        self.backend.sequence()

    def bearer(self, user: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.backend.token(user)}"}
