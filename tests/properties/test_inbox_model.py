"""Model test: lists, badges, cursors, gap fetches and streams equal a plain log."""

from datetime import timedelta

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, Volume
from notifier.domain.users.visibility import CERTAINLY_VISIBLE_AGE, Mark, SeenToken
from notifier.flow.inbox.page import BADGE_LIMIT
from tests.flow.unreliable_redis import Ending
from tests.properties.expected_inboxes import KEPT_FOR, ShownItem
from tests.properties.inbox_model_driver import CELEBRITIES, VIEWERS, World
from tests.properties.stream_updated_pages import LiveProcess

pytestmark = pytest.mark.timeout(300)
"""A run takes 15 s on an idle processor."""

SECOND = timedelta(seconds=1)
PROCESSES = st.integers(0, 1)
USERS = st.sampled_from(VIEWERS)
OWNERS = st.sampled_from(CELEBRITIES)
AUTHORS = st.sampled_from(["ada", "bob", "eve"])
MENTIONED = st.lists(st.sampled_from([*CELEBRITIES, *VIEWERS]), min_size=1, max_size=3, unique=True)
ENDINGS = st.sampled_from(Ending)
BUS_RESULTS = st.sampled_from(["sent", "sent", "sent", "kept", "lost"])
TIMES = st.sampled_from([0.001, 0.3, 0.6, 1, 4, 6, 11, 20, 31, 61, 130, 310, 3_600, 50_000, 86_400 * 40])
"""Around each of the limits of caches and windows."""
NUMBERS = st.integers(0, 1_000)
LONG_INBOX = 200
"""Tweets. With more, reading every page after each step would take most of the time."""
CACHE_BYTES = st.sampled_from([None, None, 8_000, 3_000])


class InboxMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.live = [self._live() for _ in range(2)]
        self.unused: set[int] = set()
        """Processes that get no requests for a while."""
        self.tokens: list[tuple[str, SeenToken]] = []
        self.limit = 3
        self.tweets = 0
        for owner in (*CELEBRITIES, *VIEWERS):  # so that every change has something to hide
            self._mention("ada", [owner], protected=False)

    @rule(author=AUTHORS, owners=MENTIONED, protected=st.booleans(), bus_result=BUS_RESULTS)
    def mention(self, author: str, owners: list[str], *, protected: bool, bus_result: str) -> None:
        self._begin_publishing(bus_result)
        self._mention(author, owners, protected=protected)
        self._end_publishing(bus_result)

    @precondition(lambda self: len(self.world.log.tweets()) < LONG_INBOX)
    @rule(owner=OWNERS)
    def mention_forty_times(self, owner: str) -> None:
        for _ in range(40):
            self._mention("eve", [owner], protected=True)

    @precondition(lambda self: self.world.log.tweets())
    @rule(number=NUMBERS, bus_result=BUS_RESULTS)
    def delete(self, number: int, bus_result: str) -> None:
        tweets = self.world.log.tweets()
        self._begin_publishing(bus_result)
        self.world.delete(tweets[-1 - number % len(tweets)])
        self._end_publishing(bus_result)

    @rule(user=USERS, owner=OWNERS, ending=ENDINGS)
    def follow_or_unfollow(self, user: str, owner: str, ending: Ending) -> None:
        with self.world.versions.changes_end(ending):
            self.world.follow(user, owner, ended=owner in self.world.log.facts(user, self.world.now).since)
        self._pass_time_if_unsent(ending)

    @rule(
        user=USERS,
        account=st.sampled_from([*CELEBRITIES, "ada", "bob"]),
        blocked_by_other=st.booleans(),
        ending=ENDINGS,
    )
    def block_or_unblock(self, user: str, account: str, ending: Ending, *, blocked_by_other: bool) -> None:
        pair = (account, user) if blocked_by_other else (user, account)
        blocks = self.world.log.facts(user, self.world.now).blocks
        with self.world.versions.changes_end(ending):
            self.world.block(*pair, ended=pair in blocks)
        self._pass_time_if_unsent(ending)

    @rule(user=USERS, owner=OWNERS, seconds=st.sampled_from([None, 0, 10, 600]), ending=ENDINGS)
    def mute_or_unmute(self, user: str, owner: str, seconds: int | None, ending: Ending) -> None:
        until = NEVER if seconds is None else self.world.now + timedelta(seconds=seconds) if seconds else ALWAYS
        with self.world.versions.changes_end(ending):
            self.world.mute(user, owner, until)
        self._pass_time_if_unsent(ending)

    @rule(user=USERS, owner=OWNERS, volume=st.sampled_from(["default", "all", "first", "off"]), ending=ENDINGS)
    def set_volume(self, user: str, owner: str, volume: str, ending: Ending) -> None:
        with self.world.versions.changes_end(ending):
            self.world.set_volume(user, owner, Volume(volume))
        self._pass_time_if_unsent(ending)

    @rule(user=USERS, volume=st.sampled_from(["all", "first", "off"]), ending=ENDINGS)
    def set_volume_of_everything(self, user: str, volume: str, ending: Ending) -> None:
        with self.world.versions.changes_end(ending):
            self.world.set_volume(user, None, Volume(volume))
        self._pass_time_if_unsent(ending)

    @rule(process=PROCESSES, user=USERS, number=NUMBERS, mark=st.sampled_from(Mark), ending=ENDINGS)
    def mark(self, process: int, user: str, number: int, mark: Mark, ending: Ending) -> None:
        facts = self.world.log.facts(user, self.world.now)
        keys = [item.key for item in self.world.log.inbox(user, self.world.now)]
        keys += [key for key, known in facts.marks.items() if known is Mark.HIDDEN]
        if not keys:
            return
        key = keys[number % len(keys)]
        with self.world.versions.changes_end(ending):
            self.world.mark(process, user, key, mark)
        self.live[process].record_mark(user, key)
        self._pass_time_if_unsent(ending)

    @rule(process=PROCESSES, user=USERS, limit=st.sampled_from([2, 20]))
    def keep_token(self, process: int, user: str, limit: int) -> None:
        page, _ = self.world.open(process, user, limit)
        token = page.seen
        assert token is not None
        assert token.as_of <= self.world.now - CERTAINLY_VISIBLE_AGE
        assert token.newer <= {item.entry.key for item in page.items}
        assert all(i.entry.opened_at <= token.as_of or i.entry.key in token.newer for i in page.items)
        self.tokens.append((user, token))

    @precondition(lambda self: self.tokens)
    @rule(process=PROCESSES, number=NUMBERS, ending=ENDINGS)
    def see(self, process: int, number: int, ending: Ending) -> None:
        user, token = self.tokens[-1 - number % len(self.tokens)]
        with self.world.versions.changes_end(ending):
            self.world.see(process, user, token)
        self._pass_time_if_unsent(ending)

    @rule(seconds=TIMES)
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(timedelta(seconds=seconds))

    @rule(user=USERS, number=NUMBERS)
    def pass_time_until_expiry(self, user: str, number: int) -> None:
        """Pass time until just before an item is too old to be shown."""
        if items := self.world.log.inbox(user, self.world.now):
            expires_at = items[number % len(items)].opened_at + KEPT_FOR
            self.world.pass_time(max(timedelta(), expires_at - self.world.now - SECOND))

    @rule(process=PROCESSES, cache_bytes=CACHE_BYTES)
    def restart_process(self, process: int, cache_bytes: int | None) -> None:
        self.world.restart_process(process, cache_bytes)
        self.live[process] = self._live()

    @rule(process=PROCESSES, user=USERS)
    def evict_viewer(self, process: int, user: str) -> None:
        self.world.inboxes[process].viewers.forget(UserId(user))

    @rule()
    def restart_writer(self) -> None:
        self.world.restart_writer()

    @rule()
    def reconcile(self) -> None:
        self.world.reconciler()

    @rule(process=PROCESSES)
    def use_one_process_only(self, process: int) -> None:
        self.unused = {process}

    @rule()
    def use_both_processes(self) -> None:
        self.unused = set()

    @rule(limit=st.integers(1, 7))
    def change_page_size(self, limit: int) -> None:
        self.limit = limit

    @rule()
    def wipe_redis(self) -> None:
        self.world.wipe_redis()
        for live in self.live:
            live.lose_connection()

    @rule()
    def replicate_redis(self) -> None:
        self.world.replica = self.world.versions.copied()

    @rule()
    def fail_over_redis(self) -> None:
        self.world.versions.fail_over(self.world.replica)
        for live in self.live:
            live.lose_connection()

    @rule()
    def take_redis_away(self) -> None:
        self.world.take_redis_away()

    @precondition(lambda self: self.world.versions.away)
    @rule()
    def bring_redis_back(self) -> None:
        self._bring_redis_back()

    @rule()
    def deliver_late_versions(self) -> None:
        if not self.world.versions.away:
            self.world.versions.deliver()

    @precondition(lambda self: self.world.stage.state.bus.published)
    @rule(number=NUMBERS)
    def repeat_old_message(self, number: int) -> None:
        """Publish an old message again, as a writer does after an unclear result."""
        bus = self.world.stage.state.bus
        if not bus.stalled:
            bus.publish([bus.published[-1 - number % len(bus.published)]])

    @invariant()
    def inboxes_equal_the_log(self) -> None:
        for process in {0, 1} - self.unused:
            for user in VIEWERS:
                self._check_inbox(process, user)

    def teardown(self) -> None:
        if self.world.versions.away:
            self._bring_redis_back()
        self.unused = set()
        self.inboxes_equal_the_log()

    def _check_inbox(self, process: int, user: str) -> None:
        world, expected = self.world, self.world.log.inbox(user, self.world.now)
        unread = {item.key for item in expected if item.unread}
        badge_expected = (min(len(unread), BADGE_LIMIT), len(unread) > BADGE_LIMIT)
        for processes, limit in (
            ([process], 20),
            ([process, 1 - process] if not self.unused else [process], self.limit),
        ):
            items, badge = world.walk(processes, user, limit)
            assert items == expected
            assert (badge.count, badge.more) == badge_expected
        for subject in (
            *(Subject(Kind.MENTION, UserId(owner)) for owner in CELEBRITIES),
            Subject(Kind.SELF, UserId(user)),
        ):
            assert world.fetch_gap(user, subject) == [item for item in expected if item.key.subject == subject]
        self._check_stream(process, user, expected)

    def _check_stream(self, process: int, user: str, expected: list[ShownItem]) -> None:
        live = self.live[process]
        if user not in live.pages:
            live.open(user, expected)
        if self.world.stage.state.bus.stalled:
            return  # growth in the meantime is sent once Redis is back
        live.catch_up()
        assert live.shown(user, expected) == {item.key: item.count for item in expected}
        unread = {item.key for item in expected if item.unread}
        if len(unread) <= BADGE_LIMIT:
            assert live.unread(user) == unread

    def _mention(self, author: str, owners: list[str], *, protected: bool) -> None:
        self.tweets += 1
        self.world.mention(f"t{self.tweets}", author, tuple(owners), protected=protected)

    def _begin_publishing(self, bus_result: str) -> None:
        if bus_result != "sent":
            self.world.stage.state.bus.stalled = True

    def _end_publishing(self, bus_result: str) -> None:
        """Let a second pass, after which messages that Redis missed are shown."""
        if bus_result == "lost":
            self.world.restart_writer()
        if bus_result != "sent" and not self.world.versions.away:
            self.world.stage.state.bus.stalled = False
            self.world.writer.live_publisher.flush()
            self.world.pass_time(SECOND)

    def _pass_time_if_unsent(self, ending: Ending) -> None:
        if ending is Ending.UNSENT:
            self.world.pass_time(SECOND)

    def _bring_redis_back(self) -> None:
        self.world.bring_redis_back()
        for live in self.live:
            live.lose_connection()

    def _live(self) -> LiveProcess:
        state = self.world.stage.state
        return LiveProcess(self.world.reads, state.bus, state.bursts)


class ShallowInboxMachine(InboxMachine):
    """An inbox with short lists, so that most pages need older bursts from the store."""

    def __init__(self) -> None:
        super().__init__()
        for inbox in self.world.inboxes:
            inbox.subject_cache.run_length, inbox.subject_cache.max_positions = 1, 3


SETTINGS = settings(
    max_examples=12,
    stateful_step_count=25,
    derandomize=True,
    phases=[Phase.generate],  # add Phase.shrink to analyze a failure: it takes longer than a test may
)
TestInboxMachine, TestShallowInboxMachine = InboxMachine.TestCase, ShallowInboxMachine.TestCase
TestInboxMachine.settings = TestShallowInboxMachine.settings = SETTINGS


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("machine", [InboxMachine, ShallowInboxMachine])
def test_inboxes_equal_the_log_in_many_random_runs(machine: type[InboxMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=150, derandomize=False))
