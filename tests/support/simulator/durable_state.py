"""Everything that outlives a process, in memory, with hooks for the observers."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from notifier import topics
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.sequencer import SequencedMention
from notifier.domain.ids import BurstKey
from notifier.ports.event_log_and_dead_letters import Record
from notifier.ports.leases_queues_throttles_clock import Clock
from tests.support.fakes.activity_member_sets_and_follows import (
    MemoryActiveHours,
    MemoryActiveSets,
    MemoryActivity,
    MemoryFollows,
    MemoryMemberSets,
)
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts, MemoryHeads
from tests.support.fakes.clock_and_nonces import CountedNonces, ManualClock
from tests.support.fakes.dead_letters import MemoryDeadLetters, MemoryDeadLetterTallies
from tests.support.fakes.devices import MemoryDevices
from tests.support.fakes.epochs_leases_queues_throttles import MemoryEpochs, MemoryLeases, MemoryQueue, MemoryThrottles
from tests.support.fakes.event_log import MemoryEventLog
from tests.support.fakes.inbox_cache_freshness import MemoryBurstChanges, MemoryVersions, MemoryViewerLapses
from tests.support.fakes.inbox_rows_and_audience_snapshots import (
    MemoryAudienceSnapshots,
    MemoryInboxStore,
    MemoryTimeline,
)
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
    MemoryInboxLatencyReport,
    MemoryProvider,
    MemoryProviderRates,
    MemoryPushSuppressions,
    MemorySendLog,
)
from tests.support.fakes.recent_events_and_load_limits import (
    MemoryBacklogReport,
    MemoryBackpressure,
    MemoryRecentEvents,
    MemoryTokenBuckets,
)
from tests.support.fakes.retractions_and_text_erasure import MemoryErasureTargets, MemoryRetractions
from tests.support.fakes.store_scan import MemoryStoreScan
from tests.support.fakes.user_directory_and_account_flags import MemoryAccountFlags, MemoryDirectory
from tests.support.fakes.viewer_facts import MemoryPeople


class WatchedLog(MemoryEventLog):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.on_change: Callable[[str, int, Record], None] = lambda partition, offset, record: None
        """Called for each follow, preference and device record when it is appended."""
        self.on_retraction: Callable[[str, int, Record], None] = lambda partition, offset, record: None
        """Called for each retraction record when it is appended."""
        self._observed: dict[str, int] = {}

    def uncommitted(self) -> int:
        """Return how many records a consumer group has not committed."""
        commits = {name: at for group in self._groups.values() for name, at in group.commits.items()}
        return sum(len(records) - 1 - commits.get(name, -1) for name, records in self.partitions.items())

    def append(self, records: Sequence[Record]) -> None:
        super().append(records)
        hooks = {topics.FOLLOWS: self.on_change, topics.DEVICES: self.on_change, topics.RETRACTIONS: self.on_retraction}
        for stream, hook in hooks.items():
            for partition in self._of(stream):
                for offset in range(self._observed.get(partition, 0), len(self.partitions[partition])):
                    hook(partition, offset, self.partitions[partition][offset])
                self._observed[partition] = len(self.partitions[partition])

    def indexed(self, partition: str, offset: int) -> bool:
        """Whether the indexer of the stream has committed the record."""
        return offset <= self._commits(partition.partition("/")[0]).get(partition, -1)

    def settled(self, partition: str, offset: int) -> bool:
        """Whether the retractor has committed the record."""
        return offset <= self._commits(topics.RETRACTIONS).get(partition, -1)

    def uncommitted_records(self, stream: str) -> Iterator[Record]:
        """Iterate over records that the stream's readers have not committed."""
        commits = self._commits(stream)
        for partition in self._of(stream):
            yield from self.partitions[partition][commits.get(partition, -1) + 1 :]

    def _commits(self, stream: str) -> Mapping[str, int]:
        return self._groups[stream, topics.GROUPS[stream]].commits

    def _of(self, stream: str) -> Sequence[str]:
        return [name for name in self.partitions if name.startswith(f"{stream}/")]


class WatchedBursts(MemoryBursts):
    """Remembers how each burst opened.

    It keeps whether the burst was restricted, the version of the head at which it opened, and the version at which it
    stopped being public.
    """

    def __init__(self) -> None:
        super().__init__()
        self.restricted: dict[BurstKey, bool] = {}
        self.opened_version: dict[BurstKey, int] = {}
        self.hidden_version: dict[BurstKey, int] = {}

    def write(
        self, bursts: Sequence[Burst], mentions: Sequence[SequencedMention], changed: Sequence[SequencedMention] = ()
    ) -> None:
        for burst in bursts:
            self.restricted.setdefault(burst.key, burst.restricted_to is not None)
            self.opened_version.setdefault(burst.key, burst.version)
            if burst.is_retracted or burst.restricted_to is not None:
                self.hidden_version.setdefault(burst.key, burst.version)
        super().write(bursts, mentions, changed)


class DurableState:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.nonces = CountedNonces()
        self.log = WatchedLog(self.clock)
        self.directory = MemoryDirectory()
        self.sets = MemoryMemberSets(self.directory)
        self.heads = MemoryHeads()
        self.bursts = WatchedBursts()
        self.burst_changes, self.viewer_lapses = MemoryBurstChanges(self.bursts), MemoryViewerLapses(self.bursts)
        self.retractions = MemoryRetractions(self.bursts)
        self.claims, self.audience_snapshots = MemoryClaims(), MemoryAudienceSnapshots(self.clock)
        self.ledger = MemoryLedger(self.claims)
        self.deferred_bursts = MemoryDeferredBursts(self.ledger)
        self.inbox = MemoryInboxStore(self.audience_snapshots)
        self.active_sets, self.epochs = MemoryActiveSets(), MemoryEpochs()
        self.author_verdicts, self.held_mentions = MemoryAuthorVerdicts(), MemoryHeldMentions(self.clock)
        self.throttles, self.dead_letters = MemoryThrottles(), MemoryDeadLetters()
        self.erasure_targets = MemoryErasureTargets(self.held_mentions, self.dead_letters)
        self.send_log, self.leases, self.lane_tallies = MemorySendLog(), MemoryLeases(), MemoryDeadLetterTallies()
        self.store_scan = MemoryStoreScan(self.bursts, self.ledger, self.audience_snapshots, self.inbox)
        self.account_flags, self.devices = MemoryAccountFlags(), MemoryDevices(self.clock)
        self.people = MemoryPeople(self.directory, flags=self.account_flags)
        self.follows = MemoryFollows(self.people)
        self.account_preferences, self.user_blocks = (
            MemoryAccountPreferences(self.people),
            MemoryUserBlocks(self.people),
        )
        self.subject_preferences, self.preferences = (
            MemorySubjectPreferences(self.people),
            MemoryPreferences(self.people),
        )
        self.push_suppressions = MemoryPushSuppressions(self.people, self.directory)
        self.timeline = MemoryTimeline(self.bursts, self.inbox)
        self.pull = MemoryPullIndex(self.clock)
        self.recent_events, self.token_buckets = MemoryRecentEvents(self.clock), MemoryTokenBuckets(self.clock)
        self.backpressure, self.backlog_report = MemoryBackpressure(self.clock), MemoryBacklogReport(self.clock)
        self.inbox_latency, self.circuit_report = MemoryInboxLatencyReport(self.clock), MemoryCircuitReport(self.clock)
        self.provider_rates, self.caps = MemoryProviderRates(), MemoryFrequencyCaps()
        self.activity = MemoryActivity()
        self.active_hours = MemoryActiveHours(self.activity, self.clock)
        self.bus = MemoryLiveBus()
        self.versions = MemoryVersions(clock=self.clock, bus=self.bus)
        self.queue = MemoryQueue()
        self.phones = MemoryProvider(self.clock)
        self.wipes = 0
        self.unannounced: set[BurstKey] = set()
        """Bursts that Redis refused and still lacks. Until it has them, the index claims too much."""

    def wipe(self) -> None:
        caches = (
            self.recent_events,
            self.token_buckets,
            self.backpressure,
            self.backlog_report,
            self.provider_rates,
            self.caps,
            self.inbox_latency,
            self.circuit_report,
        )
        for port in (self.pull, *caches, self.active_hours, self.queue, self.versions):
            port.wipe()
        self.wipes += 1
        self.unannounced.clear()

    def skip(self) -> None:
        """Advance the clock to the next wake-up if all work waits, so that nights are not stepped through."""
        now, bursts = self.clock.now(), self.ledger.read(self.ledger.unfinished_or_deferred()).values()
        unfinished = [
            progress for burst in bursts for progress in burst.slice_states.values() if not progress.final_entry
        ]
        if not unfinished or self._pending() or not all(progress.is_deferred(now) for progress in unfinished):
            return
        self.clock.advance(min(progress.deferred_until for progress in unfinished if progress.deferred_until) - now)

    def published(self) -> set[BurstKey]:
        """Return the bursts that are durable and announced according to their heads."""
        undone = self.heads.load(self.heads.unpublished(1_000)).values()
        hidden = {b.key for head in undone for b in head.outbox if b.key.seq > head.announced}
        return set(self.bursts.by_key) - hidden

    def at_rest(self) -> bool:
        """Whether no work is left in the store or in a queue."""
        return not (self._pending() or self.ledger.unfinished_or_deferred())

    def _pending(self) -> bool:
        return bool(any(self.queue.waiting.values()) or self.log.uncommitted() or self.heads.unpublished(1))
