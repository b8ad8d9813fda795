"""Complete example values for contract tests; arguments set what a test is about."""

from datetime import datetime, timedelta

from notifier.domain.audience.bitmap import Bits, from_offsets, no_members
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import Event, EventId, Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice_and_pool import Slice, Step
from notifier.domain.ids import BurstKey, Kind, Lane, Subject, UserId
from tests.support.fakes.clock_and_nonces import START

NOVA = Subject(Kind.MENTION, UserId("nova"))
ORION = Subject(Kind.MENTION, UserId("orion"))
EVENT = EventId("tweets", "e1")


def burst(
    subject: Subject = NOVA, seq: int = 1, *, version: int = 1, opened_at: datetime = START, text: str = "hello"
) -> Burst:
    return Burst(
        key=BurstKey(subject, seq),
        version=version,
        opened_at=opened_at,
        accepted_at=opened_at - timedelta(milliseconds=5),
        lane=Lane.CELEBRITY,
        verdict=Verdict.ALL,
        mentioners=(UserId("ada"),),
        more_mentioners=False,
        count=1,
        first_of_day=True,
        restricted_to=None,
        tweet="t1",
        text=text,
    )


def mention(subject: Subject = NOVA, *, event: EventId = EVENT) -> Mention:
    return Mention(
        event=event,
        subject=subject,
        tweet="t1",
        author=UserId("ada"),
        text="hello",
        protected=False,
        verdict=Verdict.ALL,
        lane=Lane.CELEBRITY,
        followers=2_000_000,
        happened_at=START,
        accepted_at=START,
    )


def event(id: str = EVENT.id, source: str = EVENT.source) -> Event:
    """Return an event by bob that mentions nova and the unknown user ghost."""
    return Event(
        id=EventId(source, id),
        tweet=f"t-{id}",
        author=UserId("bob"),
        mentioned=(UserId("nova"), UserId("ghost")),
        text="hello @nova",
        protected=False,
        happened_at=START - timedelta(hours=1),
        accepted_at=START,
    )


def plan(key: BurstKey, *, opened_at: datetime = START, shards: int = 2) -> Plan:
    return Plan(
        burst=key,
        opened_at=opened_at,
        accepted_at=opened_at,
        lane=Lane.CELEBRITY,
        followers=2_000_000,
        shard_spans=((0, shards - 1),),
        widths=dict.fromkeys(TIERS, 1),
        pushed=(Tier.P0,),
    )


def slice_of(key: BurstKey, tier: Tier = Tier.P1, shard: int = 0, *, step: Step = Step.ROWS) -> Slice:
    return Slice(key, step, tier, shard, shard)


def audience_snapshot(
    shard: int,
    *,
    p0: Bits | None = None,
    p1: Bits | None = None,
    push: Bits | None = None,
    opened_at: datetime = START,
) -> AudienceSnapshot:
    return AudienceSnapshot(
        shard=shard,
        opened_at=opened_at,
        tiers={
            Tier.P0: p0 if p0 is not None else from_offsets([1]),
            Tier.P1: p1 if p1 is not None else no_members(),
            Tier.P2: from_offsets(range(1_000, 90_000)),
        },
        to_alert=push if push is not None else from_offsets([1]),
        dormant_count=7,
        suppressed_counts={"muted": 2},
    )
