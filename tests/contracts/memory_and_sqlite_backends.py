"""In-memory and SQLite backends of single ports, with a manual clock."""

from dataclasses import dataclass
from pathlib import Path

from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.log.log import SqliteLog
from notifier.adapters.sqlite.stores.audience_snapshots import SqliteAudienceSnapshots
from notifier.adapters.sqlite.stores.bursts_and_sequence_heads import SqliteBursts
from notifier.adapters.sqlite.stores.dead_letters import SqliteDeadLetters, SqliteDeadLetterTallies
from notifier.adapters.sqlite.stores.devices import SqliteDevices
from notifier.adapters.sqlite.stores.inbox_rows import SqliteInbox
from notifier.adapters.sqlite.stores.leases_epochs_throttles_audit import SqliteEpochs, SqliteLeases, SqliteThrottles
from notifier.adapters.sqlite.stores.ledger_and_deferred_bursts import SqliteLedger
from notifier.adapters.sqlite.stores.member_sets_and_active_sets import SqliteActiveSets, SqliteMemberSets
from notifier.adapters.sqlite.stores.moderation import SqliteAuthorVerdicts, SqliteHeldMentions
from notifier.adapters.sqlite.stores.retractions_and_text_erasure import SqliteErasureTargets
from notifier.adapters.sqlite.stores.send_log_and_suppressions import SqliteSendLog
from notifier.adapters.sqlite.stores.store_scan import SqliteStoreScan
from notifier.adapters.sqlite.stores.user_directory_and_account_flags import SqliteAccountFlags, SqliteDirectory
from notifier.ports.audience import ActiveSets, AudienceSnapshots, MemberSets
from notifier.ports.bursts import Bursts
from notifier.ports.event_log_and_dead_letters import DeadLetters, DeadLetterTallies, EventLog
from notifier.ports.inbox import InboxStore
from notifier.ports.leases_queues_throttles_clock import Epochs, Leases, Throttles
from notifier.ports.ledger_claims_deferred_bursts_scan import Ledger, StoreScan
from notifier.ports.moderation_and_retractions import AuthorVerdicts, ErasureTargets, HeldMentions
from notifier.ports.push import Devices, SendLog
from notifier.ports.user_directory_and_account_flags import AccountFlags, Directory
from tests.support.fakes.activity_member_sets_and_follows import MemoryActiveSets, MemoryMemberSets
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.dead_letters import MemoryDeadLetters, MemoryDeadLetterTallies
from tests.support.fakes.devices import MemoryDevices
from tests.support.fakes.epochs_leases_queues_throttles import MemoryEpochs, MemoryLeases, MemoryThrottles
from tests.support.fakes.event_log import MemoryEventLog
from tests.support.fakes.inbox_rows_and_audience_snapshots import MemoryAudienceSnapshots, MemoryInboxStore
from tests.support.fakes.ledger_claims_deferred_bursts import MemoryClaims, MemoryLedger
from tests.support.fakes.moderation import MemoryAuthorVerdicts, MemoryHeldMentions
from tests.support.fakes.push import MemorySendLog
from tests.support.fakes.retractions_and_text_erasure import MemoryErasureTargets
from tests.support.fakes.store_scan import MemoryStoreScan
from tests.support.fakes.user_directory_and_account_flags import MemoryAccountFlags, MemoryDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    clock: ManualClock
    log: EventLog
    devices: Devices
    directory: Directory
    epochs: Epochs
    flags: AccountFlags
    sets: MemberSets
    active_sets: ActiveSets
    author_verdicts: AuthorVerdicts
    held_mentions: HeldMentions
    erasure_targets: ErasureTargets
    throttles: Throttles
    dead_letters: DeadLetters
    lane_tallies: DeadLetterTallies
    send_log: SendLog
    leases: Leases
    store_scan: StoreScan
    bursts: Bursts
    ledger: Ledger
    audience_snapshots: AudienceSnapshots
    inbox: InboxStore


def in_memory() -> Backend:
    clock, directory, bursts = ManualClock(), MemoryDirectory(), MemoryBursts()
    audience_snapshots, ledger = MemoryAudienceSnapshots(clock), MemoryLedger(MemoryClaims())
    inbox = MemoryInboxStore(audience_snapshots)
    held_mentions, letters = MemoryHeldMentions(clock), MemoryDeadLetters()
    return Backend(
        clock=clock,
        log=MemoryEventLog(clock),
        devices=MemoryDevices(clock),
        directory=directory,
        epochs=MemoryEpochs(),
        flags=MemoryAccountFlags(),
        sets=MemoryMemberSets(directory),
        active_sets=MemoryActiveSets(),
        author_verdicts=MemoryAuthorVerdicts(),
        held_mentions=held_mentions,
        erasure_targets=MemoryErasureTargets(held_mentions, letters),
        throttles=MemoryThrottles(),
        dead_letters=letters,
        lane_tallies=MemoryDeadLetterTallies(),
        send_log=MemorySendLog(),
        leases=MemoryLeases(),
        store_scan=MemoryStoreScan(bursts, ledger, audience_snapshots, inbox),
        bursts=bursts,
        ledger=ledger,
        audience_snapshots=audience_snapshots,
        inbox=inbox,
    )


def in_sqlite(files: Files, clock: ManualClock) -> Backend:
    core, inboxes = files.core, files.inboxes
    return Backend(
        clock=clock,
        log=SqliteLog(files.log, clock),
        devices=SqliteDevices(core, clock),
        directory=SqliteDirectory(core),
        epochs=SqliteEpochs(core),
        flags=SqliteAccountFlags(core),
        sets=SqliteMemberSets(core),
        active_sets=SqliteActiveSets(core),
        author_verdicts=SqliteAuthorVerdicts(core),
        held_mentions=SqliteHeldMentions(core, clock),
        erasure_targets=SqliteErasureTargets(core),
        throttles=SqliteThrottles(core),
        dead_letters=SqliteDeadLetters(core),
        lane_tallies=SqliteDeadLetterTallies(core),
        send_log=SqliteSendLog(core, clock),
        leases=SqliteLeases(core),
        store_scan=SqliteStoreScan(core, inboxes),
        bursts=SqliteBursts(core),
        ledger=SqliteLedger(core),
        audience_snapshots=SqliteAudienceSnapshots(inboxes, clock),
        inbox=SqliteInbox(inboxes),
    )


def migrated(folder: Path) -> Files:
    files = Files.at(folder)
    files.migrate()
    return files
