"""Complete example values of the domain; arguments set what a test is about."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

from notifier.domain.audience.snapshot import SnapshotCounts
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import EventId, Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.bursts.sequencer import Head, LoggedMention, advance, after_publishing
from notifier.domain.delivery.ledger import Claim, Fact, LedgerEntry
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice_and_pool import Slice, Step
from notifier.domain.ids import BurstKey, Kind, Lane, Subject, UserId
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Marks, Viewer

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

ADA, BOB, EVE, NOVA = (UserId(name) for name in ("ada", "bob", "eve", "nova"))
OF_NOVA = Subject(Kind.MENTION, NOVA)
SELF_NOVA = Subject(Kind.SELF, NOVA)
LANE = "mentions.celebrity/0"


def mention(
    n: int = 1,
    *,
    author: UserId = ADA,
    subject: Subject = OF_NOVA,
    followers: int = 2_000_000,
    protected: bool = False,
    verdict: Verdict = Verdict.ALL,
) -> Mention:
    return Mention(
        event=EventId("tweets", f"e{n}"),
        subject=subject,
        tweet=f"t{n}",
        author=author,
        text=f"text {n}",
        protected=protected,
        verdict=verdict,
        lane=Lane.CELEBRITY,
        followers=followers,
        happened_at=NOON,
        accepted_at=NOON,
    )


def numbered(*mentions: Mention, first: int = 0, partition: str = LANE) -> list[LoggedMention]:
    return [LoggedMention(partition=partition, offset=first + n, mention=m) for n, m in enumerate(mentions)]


def advanced(
    head: Head,
    *mentions: Mention,
    now: datetime = NOON,
    collapse: timedelta | None = None,
    known: Collection[EventId] = (),
) -> Head:
    """Return the head after these mentions, the next in its log, are sequenced and published.

    Its bursts are still in `open`.
    """
    first = head.applied.get(LANE, -1) + 1
    after = advance(
        head, numbered(*mentions, first=first), sequenced_events=known, now=now, nonce="n", collapse_override=collapse
    )
    return after_publishing(after, nonce="p")


def burst(
    *,
    subject: Subject = OF_NOVA,
    seq: int = 1,
    opened_at: datetime = NOON,
    mentioners: tuple[UserId, ...] = (ADA,),
    more_mentioners: bool = False,
    first_of_day: bool = True,
    restricted_to: UserId | None = None,
    verdict: Verdict = Verdict.ALL,
    lane: Lane = Lane.CELEBRITY,
    count: int | None = None,
) -> Burst:
    return Burst(
        key=BurstKey(subject, seq),
        version=1,
        opened_at=opened_at,
        accepted_at=opened_at,
        lane=lane,
        verdict=verdict,
        mentioners=mentioners,
        more_mentioners=more_mentioners,
        count=len(mentioners) if count is None else count,
        first_of_day=first_of_day,
        restricted_to=restricted_to,
        tweet="t1",
        text="hello",
    )


def viewer(
    *,
    user: UserId = BOB,
    follows: Mapping[Subject, datetime] | None = None,
    blocked: Collection[UserId] = (),
    volume: Volume = Volume.DEFAULT,
    marks: Marks | None = None,
) -> Viewer:
    return Viewer(
        user=user,
        follows={OF_NOVA: NOON - HOUR} if follows is None else follows,
        blocked=blocked,
        volume={OF_NOVA: volume},
        marks=marks or Marks(),
    )


def plan_of(
    *,
    seq: int = 1,
    shards: int = 4,
    width: int = 1,
    opened_at: datetime = NOON,
    followers: int = 400_000,
    pushed: tuple[Tier, ...] = (),
) -> Plan:
    return Plan(
        burst=BurstKey(OF_NOVA, seq),
        opened_at=opened_at,
        accepted_at=opened_at,
        lane=Lane.CELEBRITY,
        followers=followers,
        shard_spans=((0, shards - 1),) if shards else (),
        widths=dict.fromkeys(TIERS, width),
        pushed=pushed,
    )


def slice_of(
    tier: Tier = Tier.P1, first: int = 0, last: int | None = None, *, seq: int = 1, step: Step = Step.ROWS
) -> Slice:
    return Slice(BurstKey(OF_NOVA, seq), step, tier, first, first if last is None else last)


def entry(
    of: Slice,
    fact: Fact,
    *,
    n: int = 0,
    at: datetime = NOON,
    people: int = 0,
    note: str = "",
    alert_count: int | None = None,
) -> LedgerEntry:
    return LedgerEntry(slice=of, fact=fact, number=n, at=at, people=people, note=note, alert_count=alert_count)


def claim(of: Slice, *, at: datetime, until: datetime) -> Claim:
    return Claim(slice=of, number=1, owner="w1", claimed_at=at, until=until)


def tally(shard: int, *, p0: int = 0, p1: int = 0, p2: int = 0, suppressed: int = 0) -> SnapshotCounts:
    return SnapshotCounts(
        shard=shard, reached={Tier.P0: p0, Tier.P1: p1, Tier.P2: p2}, dormant=9, suppressed=suppressed
    )
