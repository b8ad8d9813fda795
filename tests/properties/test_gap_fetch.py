"""Gap fetch against an oracle that checks every burst without ranges or pages."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark
from notifier.flow.inbox.burst_walk import position_of
from notifier.flow.inbox.gap_fetch import MAX_BURSTS_READ, GapFetch, GapPage, SeqRange, seq_of
from notifier.ports.inbox import InboxPosition
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.support.domain_examples import burst
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.inbox_rows_and_audience_snapshots import (
    MemoryAudienceSnapshots,
    MemoryInboxStore,
    MemoryTimeline,
)
from tests.support.fakes.user_directory_and_account_flags import MemoryDirectory
from tests.support.fakes.viewer_facts import MemoryPeople
from tests.support.simulator.inbox_visits import run_sync

NOW = datetime(2026, 4, 5, 12, 0, 0, 300_000, tzinfo=UTC)
THIS_SECOND = int(NOW.timestamp())
OLDEST_SECOND = int((NOW - RETENTION).timestamp())
LONG_AGO = NOW - timedelta(days=200)
KIM, NOVA, ORION, ADA, BOB, EVE = ACCOUNTS = [UserId(name) for name in ("kim", "nova", "orion", "ada", "bob", "eve")]
MENTION_SUBJECTS = [Subject(Kind.MENTION, owner) for owner in (NOVA, ORION, ADA, BOB, EVE)]
SUBJECTS = [*MENTION_SUBJECTS[:2], Subject(Kind.MENTION, EVE), Subject(Kind.SELF, KIM), Subject(Kind.SELF, NOVA)]
EMPTY_SUBJECTS = [Subject(Kind.MENTION, UserId("nobody")), Subject(Kind.DIGEST, KIM)]
VOLUMES = [volume for volume in Volume if volume is not Volume.DEFAULT]

SEEDS = st.integers(0, 2**32)
SIZES = st.integers(0, 40)
SEQS = st.integers(THIS_SECOND - 6, THIS_SECOND + 3) | st.sampled_from([0, OLDEST_SECOND, OLDEST_SECOND + 1])


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts that decide what the viewer sees."""

    follows: Mapping[Subject, datetime]
    muted: set[Subject]
    blocks: set[UserId]
    blocked_by: set[UserId]
    volumes: Mapping[Subject, Volume]
    everything: Volume
    hidden: set[BurstKey]

    def shows(self, burst_: Burst) -> bool:
        """Return whether the inbox lists the burst singly, by the rules of the documentation."""
        subject, blocked_users = burst_.key.subject, self.blocks | self.blocked_by
        volume = Volume.ALL
        if subject.kind is Kind.SELF:
            listed = subject.owner == KIM
        else:
            listed = subject in self.follows and burst_.opened_at >= self.follows[subject]
            listed = listed and subject not in self.muted and subject.owner not in blocked_users
            volume = self.volumes.get(subject, self.everything)
            listed = listed and self.everything is not Volume.OFF
        author = burst_.restricted_to
        return (
            listed
            and burst_.count > 0
            and burst_.opened_at > NOW - timedelta(days=90)
            and (author is None or Subject(Kind.MENTION, author) in self.follows)
            and (burst_.more_mentioners or not {*burst_.mentioners} <= blocked_users)
            and (volume is Volume.ALL or (volume is Volume.FIRST and burst_.first_of_day))
            and burst_.key not in self.hidden
        )


@dataclass
class CountingTimeline(MemoryTimeline):
    """A timeline that records how many bursts each read returned."""

    stored: MemoryBursts
    run_sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.stored, MemoryInboxStore(MemoryAudienceSnapshots(ManualClock())))

    async def older_than(
        self,
        subjects: Collection[Subject],
        position: InboxPosition | None,
        limit: int,
        authors: Collection[UserId] | None = None,
        since: datetime | None = None,
    ) -> Sequence[Burst]:
        bursts = await super().older_than(subjects, position, limit, authors, since)
        self.run_sizes.append(len(bursts))
        return bursts


def random_bursts(random_: Random, size: int) -> list[Burst]:
    """Draw bursts; as in a sequence head, no two of a subject open in the same millisecond."""
    times: dict[Subject, set[datetime]] = {subject: set() for subject in SUBJECTS}
    for _ in range(size):
        times[random_.choice([SUBJECTS[0], *SUBJECTS])].add(random_time(random_))
    return [
        burst(
            subject=subject,
            seq=seq,
            opened_at=opened_at,
            mentioners=tuple(random_.sample([ADA, BOB, EVE, NOVA], random_.randint(1, 3))),
            more_mentioners=random_.random() < 0.3,
            first_of_day=random_.random() < 0.5,
            restricted_to=random_.choice([None, None, None, ADA, BOB]),
            count=random_.choice([0, 1, 1, 1, 2]),
        )
        for subject, opened in times.items()
        for seq, opened_at in enumerate(sorted(opened), 1)
    ]


def random_time(random_: Random) -> datetime:
    """Draw an opening time: often in the same second, at times ahead of the clock or at the end of retention."""
    if random_.random() < 0.1:
        return NOW - RETENTION + timedelta(milliseconds=random_.choice([-1, 0, 1, 900]))
    return NOW.replace(microsecond=0) + timedelta(seconds=random_.randint(-4, 1), milliseconds=random_.randrange(1_000))


def random_facts(random_: Random, bursts: Sequence[Burst]) -> Facts:
    since = [LONG_AGO] * 4 + [NOW - timedelta(seconds=2), NOW + timedelta(seconds=1)]
    owners = [NOVA, ORION, ADA, BOB, EVE]
    return Facts(
        follows={subject: random_.choice(since) for subject in MENTION_SUBJECTS if random_.random() < 0.7},
        muted={subject for subject in MENTION_SUBJECTS if random_.random() < 0.1},
        blocks={name for name in owners if random_.random() < 0.15},
        blocked_by={name for name in owners if random_.random() < 0.15},
        volumes={subject: random_.choice(VOLUMES) for subject in SUBJECTS[:2] if random_.random() < 0.3},
        everything=random_.choice([*[Volume.ALL] * 6, *VOLUMES]),
        hidden={burst_.key for burst_ in bursts if random_.random() < 0.1},
    )


def people_of(facts: Facts) -> MemoryPeople:
    directory = MemoryDirectory()
    directory.enrol([DirectoryEntry(user=name, member=Member(n)) for n, name in enumerate(ACCOUNTS, 1)])
    people = MemoryPeople(directory)
    for subject, since in facts.follows.items():
        people.follow(KIM, subject, since)
    for subject in facts.muted:
        people.mute(KIM, subject)
    for name in facts.blocks:
        people.block(KIM, name)
    for name in facts.blocked_by:
        people.block(name, KIM)
    for subject, volume in facts.volumes.items():
        people.volume(KIM, subject, volume)
    people.patch_account(KIM, AccountPreferencesPatch(volume=facts.everything))
    run_sync(people.mark(Member(1), facts.hidden, Mark.HIDDEN))
    return people


def gaps_over(bursts: Sequence[Burst], facts: Facts, most_read: int) -> tuple[GapFetch, CountingTimeline]:
    stored = MemoryBursts()
    stored.write(bursts, [])
    timeline = CountingTimeline(stored)
    people = people_of(facts)
    return GapFetch(people=people, timeline=timeline, clock=ManualClock(NOW), max_bursts_read=most_read), timeline


def pages_of(gaps: GapFetch, subject: Subject, within: SeqRange, limit: int, most_pages: int) -> list[GapPage]:
    pages = [run_sync(gaps.fetch(KIM, subject, within, limit=limit))]
    while pages[-1].next is not None:
        assert len(pages) < most_pages, "the cursor makes no progress"
        pages.append(run_sync(gaps.fetch(KIM, subject, within, after=pages[-1].next, limit=limit)))
    return pages


def second_of(burst_: Burst) -> int:
    """Return the second that items show; it is never in the future."""
    return min(int(burst_.opened_at.timestamp()), THIS_SECOND)


@settings(max_examples=150)
@given(
    seed=SEEDS,
    size=SIZES,
    first=SEQS,
    last=st.none() | SEQS,
    limit=st.integers(1, 4),
    most_read=st.integers(1, 7),
)
def test_gap_fetch_equals_oracle(
    *, seed: int, size: int, first: int, last: int | None, limit: int, most_read: int
) -> None:
    random_ = Random(seed)
    bursts = random_bursts(random_, size)
    facts = random_facts(random_, bursts)
    gaps, timeline = gaps_over(bursts, facts, most_read)
    newest_first = sorted((burst_ for burst_ in bursts if facts.shows(burst_)), key=position_of, reverse=True)
    for subject in (*SUBJECTS, *EMPTY_SUBJECTS):
        expected = [
            burst_
            for burst_ in newest_first
            if burst_.key.subject == subject
            and first <= second_of(burst_)
            and (last is None or second_of(burst_) <= last)
        ]
        pages = pages_of(gaps, subject, SeqRange(first=first, last=last), limit, len(bursts) + 2)
        returned = [item.burst for page in pages for item in page.items]
        assert returned == expected
        assert [seq_of(burst_, NOW) for burst_ in returned] == [second_of(burst_) for burst_ in expected]
        assert all(len(page.items) <= limit and not page.partial for page in pages)
    assert max(timeline.run_sizes) <= most_read


@settings(max_examples=50)
@given(seed=SEEDS, size=SIZES, first=SEQS, limit=st.integers(1, 4), most_read=st.integers(1, 7))
def test_gap_fetch_pages_ignore_bursts_restricted_to_others(
    *, seed: int, size: int, first: int, limit: int, most_read: int
) -> None:
    random_ = Random(seed)
    bursts = random_bursts(random_, size)
    facts = random_facts(random_, bursts)
    follows = {subject.owner for subject in facts.follows}
    public = [burst_ for burst_ in bursts if burst_.restricted_to is None or burst_.restricted_to in follows]
    assert shape_of(bursts, facts, first, limit, most_read) == shape_of(public, facts, first, limit, most_read)


@settings(max_examples=50)
@given(seed=SEEDS, size=SIZES, first=SEQS, limit=st.integers(1, 4))
def test_gap_fetch_pages_depend_on_visible_bursts_only(seed: int, size: int, first: int, limit: int) -> None:
    random_ = Random(seed)
    bursts = random_bursts(random_, size)
    facts = random_facts(random_, bursts)
    visible = [burst_ for burst_ in bursts if facts.shows(burst_)]
    assert shape_of(bursts, facts, first, limit, MAX_BURSTS_READ) == shape_of(
        visible, facts, first, limit, MAX_BURSTS_READ
    )


def shape_of(
    bursts: Sequence[Burst], facts: Facts, first: int, limit: int, most_read: int
) -> list[tuple[list[Burst], InboxPosition | None]]:
    gaps, _ = gaps_over(bursts, facts, most_read)
    pages = pages_of(gaps, SUBJECTS[0], SeqRange(first=first), limit, len(bursts) + 2)
    return [([item.burst for item in page.items], page.next) for page in pages]
