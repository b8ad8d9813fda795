"""A seal holds everybody once: by tier, dormant, or suppressed by a rule."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.codec import SnapshotFacts, pack, pack_seal, unpack, unpack_seal
from notifier.domain.audience.bitmap import Bits, count, from_offsets, members
from notifier.domain.audience.snapshot import Seal, seal
from notifier.domain.audience.tiers import SUPPRESSING, TIERS, SetKind, Tier, TierRule, by_activity
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import Lane
from tests.properties.crowds import BITMAPS, CROWDS, SOME, Crowd, shard_sets
from tests.support.examples import EVE, burst

BURSTS = st.builds(
    burst,
    first_of_day=st.booleans(),
    lane=st.sampled_from(Lane),
    verdict=st.sampled_from(Verdict),
    restricted_to=st.sampled_from([None, EVE]),
)

MOMENTS = st.integers(0, 2**45).map(lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms))
"""Whole milliseconds, as opening times are."""

PHONES: st.SearchStrategy[Crowd] = st.fixed_dictionaries(
    {SetKind.PUSH: SOME, SetKind.NO_PUSH: SOME, SetKind.ASKED: SOME}
)


def places(bits: Bits) -> set[int]:
    return {int(member) for member in members(bits, 0)}


def audience(crowd: Crowd, author: frozenset[int] | None) -> set[int]:
    followers = set(crowd.get(SetKind.FOLLOWERS, frozenset()))
    return followers if author is None else followers & author


def where(person: int, crowd: Crowd, of: Burst) -> Tier | SetKind:
    """The rules for one follower, said once more in the words of one person."""

    def within(kind: SetKind) -> bool:
        return person in crowd.get(kind, frozenset())

    own_word = any(map(within, (SetKind.ALL, SetKind.OFF, SetKind.FIRST, SetKind.DIGEST)))
    first, by_default = {SetKind.FIRST, SetKind.OVERALL_FIRST}, {SetKind.OVERALL_FIRST, SetKind.OVERALL_DIGEST}
    for kind in SUPPRESSING:
        if within(kind) and not (kind in first and of.first_of_day) and not (kind in by_default and own_word):
            return kind
    if within(SetKind.VIP) and within(SetKind.ACTIVE_7D):
        return Tier.P0
    if within(SetKind.ACTIVE_24H):
        return Tier.P1
    return Tier.P2 if of.lane is Lane.STANDARD or within(SetKind.ACTIVE_30D) else Tier.DORMANT


def saying(named: Mapping[Tier, frozenset[int]]) -> TierRule:
    """A rule that says this, whatever the sets are."""
    return lambda _: {tier: from_offsets(some) for tier, some in named.items()}


@given(CROWDS, BURSTS, st.none() | SOME)
@settings(max_examples=150)
def test_tiers_disjoint_cover(crowd: Crowd, of: Burst, author: frozenset[int] | None) -> None:
    """Every follower is where the rules say, and nowhere else."""
    sealed = seal(of, 0, shard_sets(crowd, author))
    by_rule = {person: where(person, crowd, of) for person in audience(crowd, author)}
    for tier in TIERS:
        assert places(sealed.tiers[tier]) == {person for person, rule in by_rule.items() if rule is tier}
    assert sealed.dormant == sum(rule is Tier.DORMANT for rule in by_rule.values())
    assert dict(sealed.suppressed) == {
        str(kind): n for kind in SUPPRESSING if (n := sum(rule is kind for rule in by_rule.values()))
    }


@given(CROWDS, BURSTS, st.none() | SOME, st.dictionaries(st.sampled_from(Tier), SOME))
@settings(max_examples=150)
def test_tiers_disjoint_cover_whatever_a_rule_says(
    crowd: Crowd, of: Burst, author: frozenset[int] | None, named: Mapping[Tier, frozenset[int]]
) -> None:
    sealed, usual = (seal(of, 0, shard_sets(crowd, author), rule) for rule in (saying(named), by_activity))
    wanted = {person for person in audience(crowd, author) if isinstance(where(person, crowd, of), Tier)}
    p0, p1, p2 = (wanted & named.get(tier, frozenset()) for tier in TIERS)
    rest = wanted - p0 - p1 if of.lane is Lane.STANDARD else p2 - p0 - p1
    assert [places(sealed.tiers[tier]) for tier in TIERS] == [p0, p1 - p0, rest]
    assert sealed.dormant == len(wanted - p0 - p1 - rest)
    assert sealed.suppressed == usual.suppressed


@given(CROWDS, BURSTS, st.none() | SOME)
@settings(max_examples=100)
def test_expected_are_those_reached_and_those_suppressed(
    crowd: Crowd, of: Burst, author: frozenset[int] | None
) -> None:
    sealed = seal(of, 0, shard_sets(crowd, author))
    tally = sealed.tally()
    assert tally.expected == sum(sealed.reached(tier) for tier in TIERS) + sum(sealed.suppressed.values())
    assert tally.expected + tally.dormant == len(audience(crowd, author))


@given(CROWDS, PHONES, BURSTS, st.sets(st.sampled_from(Tier)))
@settings(max_examples=100)
def test_phones_ring_of_the_pushed_tiers_and_of_whoever_asked_and_only_if_allowed(
    crowd: Crowd, phones: Crowd, of: Burst, pushed: set[Tier]
) -> None:
    crowd = {**crowd, **phones}
    sealed = seal(of, 0, shard_sets(crowd), pushed=pushed)
    by_rule = {person: where(person, crowd, of) for person in audience(crowd, None)}
    ready = phones[SetKind.PUSH] - phones[SetKind.NO_PUSH] if of.verdict is Verdict.ALL else frozenset()
    for tier in Tier:
        there = {person for person, rule in by_rule.items() if rule is tier} & ready
        assert places(sealed.alerted(tier)) == (there if tier in pushed else there & phones[SetKind.ASKED])
    assert [sealed.phones(tier) for tier in (Tier.P0, Tier.P1)] == [
        count(sealed.alerted(tier)) for tier in (Tier.P0, Tier.P1)
    ]
    assert sealed.phones(Tier.P2) == count(sealed.alerted(Tier.P2)) + count(sealed.alerted(Tier.DORMANT))


@given(st.tuples(BITMAPS, BITMAPS, BITMAPS), BITMAPS, st.integers(0, 2**17), MOMENTS)
@settings(max_examples=25)
def test_a_seal_survives_its_storage(
    tiers: tuple[Bits, Bits, Bits], push: Bits, dormant: int, opened_at: datetime
) -> None:
    one = Seal(
        shard=3,
        opened_at=opened_at,
        tiers=dict(zip(TIERS, tiers, strict=True)),
        push=push,
        dormant=dormant,
        suppressed={"off": 1},
    )
    read = unpack_seal(3, pack_seal(one))
    assert (read.tally(), read.opened_at) == (one.tally(), opened_at)
    assert all((read.tiers[tier] == one.tiers[tier]).all() for tier in TIERS)
    assert count(read.push & push) == count(push) == count(read.push)
    facts = unpack(SnapshotFacts, pack(SnapshotFacts.of(one)))
    assert facts.tally(3) == one.tally()
    assert [facts.phones_of(tier) for tier in TIERS] == [one.part(tier).phones for tier in TIERS]
