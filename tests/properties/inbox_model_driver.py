"""Drives the product for the model test, and logs all actions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier import topics
from notifier.api.request_threads import ThreadedLog
from notifier.consumer_loop import build_stream_processor
from notifier.domain.audience.account_flags import Flag, FlagRow
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.upstream.validation import (
    BLOCKED_TYPE,
    DELETED_TYPE,
    FOLLOWED_TYPE,
    UNBLOCKED_TYPE,
    UNFOLLOWED_TYPE,
)
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.domain.users.subject_preferences import PreferencePatch, Volume
from notifier.domain.users.visibility import Mark, SeenToken
from notifier.flow.delivery.publishing_and_index_reconciler import Reconciler
from notifier.flow.inbox.gap_fetch import GapFetch, SeqRange
from notifier.flow.inbox.inbox import Inbox
from notifier.flow.inbox.page import Badge, BurstItem, Page
from notifier.flow.inbox.preference_editor import PreferenceEditor
from notifier.metrics import Metrics
from notifier.ports.all_ports import ReadPorts
from notifier.wiring.delivery import build_reconciler
from notifier.wiring.inbox import build_gap_fetch, build_versioned_preferences
from notifier.wiring.shared_parts import System
from tests.cli.in_memory_read_ports import reads_of
from tests.flow.two_api_processes import inbox_of
from tests.flow.unreliable_redis import UnreliablePullIndex, UnreliableVersions, unreliable_state
from tests.properties.expected_inboxes import (
    Blocked,
    Deleted,
    Followed,
    Log,
    Marked,
    Mentioned,
    Muted,
    Seen,
    ShownItem,
    VolumeSet,
)
from tests.support.fakes.api_threads import InlineThreads
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync
from tests.support.simulator.population import SINCE

VIEWERS = ("kim", "lee")
CELEBRITIES = ("nova", "lyra", "orion", "eve")
MOST_PAGES = 200


def shown_item(item: BurstItem) -> ShownItem:
    burst = item.burst
    return ShownItem(
        key=burst.key,
        opened_at=burst.opened_at,
        count=burst.count,
        names=frozenset(item.mentioners),
        unread=item.unread,
    )


def shown_items(page: Page) -> list[ShownItem]:
    assert not page.partial
    return [shown_item(item) for item in page.items if isinstance(item, BurstItem)]


@dataclass
class World:
    """Two API processes and one writer. Each method performs one action and adds it to the log."""

    log: Log = field(default_factory=Log)
    stage: Stage = field(init=False)
    versions: UnreliableVersions = field(init=False)
    replica: UnreliableVersions = field(init=False)
    pull: UnreliablePullIndex = field(init=False)
    reads: ReadPorts = field(init=False)
    gaps: GapFetch = field(init=False)
    editor: PreferenceEditor = field(init=False)
    inboxes: list[Inbox] = field(init=False)
    writer: System = field(init=False)
    """The writing process; it keeps the messages that Redis did not accept."""
    reconciler: Reconciler = field(init=False)
    last_sequence: int = 0

    def __post_init__(self) -> None:
        state, self.versions, self.pull = unreliable_state()
        self.replica = self.versions.copied()
        self.stage = Stage(state=state)
        self.stage.population.resize("nova", 50_000)  # below the size at which the fan-out budget shapes bursts
        self.reads = reads_of(self.stage)
        self.gaps = build_gap_fetch(self.reads)
        self.editor = PreferenceEditor(
            people=state.people,
            preferences=build_versioned_preferences(self.reads),
            clock=state.clock,
            log=ThreadedLog(log=state.log, threads=InlineThreads()),
        )
        self.inboxes = [inbox_of(self.reads, Metrics()) for _ in range(2)]
        self.restart_writer()
        vips = [self.stage.population.base[user].member for user in VIEWERS]
        state.account_flags.write([FlagRow(flag=Flag.VIP, member=Member(vip), is_set=True, sequence=1) for vip in vips])
        for user in VIEWERS:
            for owner in self.stage.population.base[user].follows:
                self.log.add(Followed(at=SINCE, user=user, owner=owner, ended=False))
        self.log.add(VolumeSet(at=SINCE, user="lee", owner="nova", volume=Volume.FIRST))

    @property
    def now(self) -> datetime:
        return self.stage.state.clock.now()

    def pass_time(self, by: timedelta) -> None:
        self.stage.state.clock.advance(by)

    def mention(self, tweet: str, author: str, owners: tuple[str, ...], *, protected: bool) -> None:
        self.log.add(Mentioned(at=self.now, tweet=tweet, author=author, owners=owners, protected=protected))
        self.stage.tweet(*owners, author=author, protected=protected, of=tweet)
        self._sequence()

    def delete(self, tweet: Mentioned) -> None:
        self.log.add(Deleted(at=self.now, tweet=tweet.tweet))
        self.stage.send_event(DELETED_TYPE, self.writer, tweet=tweet.tweet, author=tweet.author)
        self._sequence()

    def follow(self, user: str, owner: str, *, ended: bool) -> None:
        self.log.add(Followed(at=self.now, user=user, owner=owner, ended=ended))
        self._send(UNFOLLOWED_TYPE if ended else FOLLOWED_TYPE, follower=user, followed=owner)

    def block(self, blocker: str, blocked: str, *, ended: bool) -> None:
        self.log.add(Blocked(at=self.now, blocker=blocker, blocked=blocked, ended=ended))
        self._send(UNBLOCKED_TYPE if ended else BLOCKED_TYPE, blocker=blocker, blocked=blocked)

    def mute(self, user: str, owner: str, until: datetime) -> None:
        self.log.add(Muted(at=self.now, user=user, owner=owner, until=until))
        run_sync(
            self.editor.change(UserId(user), Subject(Kind.MENTION, UserId(owner)), PreferencePatch(muted_until=until))
        )
        self._sequence()

    def set_volume(self, user: str, owner: str | None, volume: Volume) -> None:
        self.log.add(VolumeSet(at=self.now, user=user, owner=owner, volume=volume))
        if owner is None:
            run_sync(self.editor.change_account_preferences(UserId(user), AccountPreferencesPatch(volume=volume)))
        else:
            run_sync(
                self.editor.change(UserId(user), Subject(Kind.MENTION, UserId(owner)), PreferencePatch(volume=volume))
            )
        self._sequence()

    def mark(self, process: int, user: str, key: BurstKey, mark: Mark) -> None:
        self.log.add(Marked(at=self.now, user=user, key=key, mark=mark))
        run_sync(self.inboxes[process].mark(UserId(user), [key], mark))

    def see(self, process: int, user: str, token: SeenToken) -> None:
        self.log.add(Seen(at=self.now, user=user, as_of=token.as_of, newer=token.newer))
        run_sync(self.inboxes[process].see(UserId(user), token))

    def open(self, process: int, user: str, limit: int = 20) -> tuple[Page, Badge]:
        opening = run_sync(self.inboxes[process].open(UserId(user), limit=limit))
        assert opening.badge is not None
        return opening.page, opening.badge

    def walk(self, processes: Sequence[int], user: str, limit: int) -> tuple[list[ShownItem], Badge]:
        """Return the items of all pages, fetched from the processes in turn, and the badge of the first page."""
        page, badge = self.open(processes[0], user, limit)
        items, turn = shown_items(page), 0
        while page.next is not None:
            turn += 1
            assert turn < MOST_PAGES, "the cursor makes no progress"
            inbox = self.inboxes[processes[turn % len(processes)]]
            page = run_sync(inbox.page(UserId(user), after=page.next, limit=limit))
            items += shown_items(page)
        return items, badge

    def fetch_gap(self, user: str, subject: Subject) -> list[ShownItem]:
        """Return everything that the gap fetch returns for the subject."""
        page = run_sync(self.gaps.fetch(UserId(user), subject, SeqRange(first=0)))
        items = [shown_item(item) for item in page.items]
        while page.next is not None:
            page = run_sync(self.gaps.fetch(UserId(user), subject, SeqRange(first=0), after=page.next))
            items += [shown_item(item) for item in page.items]
        return items

    def restart_process(self, process: int, cache_bytes: int | None) -> None:
        """Replace a process by one with empty caches, and possibly a small cache limit."""
        self.inboxes[process] = inbox_of(self.reads, Metrics())
        if cache_bytes is not None:
            self.inboxes[process].subject_cache.max_bytes = cache_bytes

    def restart_writer(self) -> None:
        """Replace the writer; the messages that Redis did not accept are lost."""
        self.writer = self.stage.system()
        self.reconciler = build_reconciler(self.writer)

    def wipe_redis(self) -> None:
        self.stage.state.wipe()

    def take_redis_away(self) -> None:
        self.versions.away = self.pull.away = self.stage.state.bus.stalled = True

    def bring_redis_back(self) -> None:
        """Make Redis available, resend what it missed, and let each process read the change feed."""
        self.versions.away = self.pull.away = self.stage.state.bus.stalled = False
        self.writer.live_publisher.flush()
        self.pass_time(timedelta(seconds=1))

    def _send(self, type: str, **data: object) -> None:
        self.last_sequence += 1
        self.stage.send_event(type, self.writer, sequence=self.last_sequence, **data)
        self._sequence()

    def _sequence(self) -> None:
        for stream in topics.PARTITION_COUNTS:
            loop = build_stream_processor(self.writer, stream)
            while loop.step():
                pass
            loop.consumer.close()
