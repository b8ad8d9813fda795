"""The contract of the seals."""

from collections.abc import Iterable
from datetime import timedelta

import numpy as np

from notifier.codec import pack_seal
from notifier.domain.audience.bitmap import everybody, from_offsets, nobody, offsets
from notifier.domain.audience.snapshot import KEPT_FOR, Seal
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.ids import BurstKey
from tests.contracts.flow_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION, seal
from tests.support.fakes.clock import START

KEY = BurstKey(NOVA, 1)


def packed(seals: Iterable[Seal]) -> list[tuple[int, bytes]]:
    """Bitmaps don't compare as values, their bytes do."""
    return [(one.shard, pack_seal(one)) for one in seals]


def test_a_seal_comes_back_as_it_was_inserted(store: Store) -> None:
    made = [seal(shard, p1=everybody()) for shard in (1525, 0, 8, 1)]
    assert packed(store.seals.insert(KEY, made)) == packed(made)
    with reopened(store) as again:
        found = again.seals.read(KEY, [0, 1, 2, 8, 1525])
    assert sorted(found) == [0, 1, 8, 1525]
    assert packed(found[one.shard] for one in made) == packed(made)


def test_a_part_of_a_seal_says_what_the_whole_does(store: Store) -> None:
    made = [seal(shard, p1=everybody()) for shard in (1525, 0, 7, 8)]
    made.append(seal(9, p0=from_offsets([5, 6]), p1=from_offsets([7]), push=from_offsets([6, 7, 8, 1_000])))
    store.seals.insert(KEY, made)
    asked = [*range(11), 1525]
    for tier in TIERS:
        parts, alerted = store.seals.parts(KEY, asked, tier), store.seals.alerted(KEY, asked, tier)
        assert parts.keys() == alerted.keys() == {one.shard for one in made}
        for one in made:
            part = parts[one.shard]
            assert (part.shard, part.opened_at, part.phones) == (one.shard, one.opened_at, one.phones(tier))
            assert np.array_equal(part.members, one.tiers[tier])
            assert np.array_equal(alerted[one.shard], one.tiers[tier] & one.push)
    assert store.seals.tallies(KEY, asked) == {one.shard: one.tally() for one in made}


def test_the_dormant_who_are_alerted_are_those_of_no_tier(store: Store) -> None:
    push = from_offsets([5, 8, 1_000, 100_000])
    store.seals.insert(KEY, [seal(9, p0=from_offsets([5]), push=push), seal(1, push=nobody())])
    found = store.seals.alerted(KEY, [1, 2, 9], Tier.DORMANT)
    assert {shard: offsets(bits).tolist() for shard, bits in found.items()} == {1: [], 9: [8, 100_000]}
    assert [store.seals.parts(KEY, [9], tier)[9].phones for tier in TIERS] == [1, 0, 3]


def test_the_first_seal_of_a_shard_stands_and_the_loser_gets_it(store: Store) -> None:
    first, late, new = seal(3), seal(3, p0=from_offsets([2])), seal(11)
    store.seals.insert(KEY, [first])
    assert packed(store.seals.insert(KEY, [new, late])) == packed([new, first])
    assert packed(store.seals.read(KEY, [3]).values()) == packed([first])


def test_opening_time_of_the_first_seal_stands(store: Store) -> None:
    """A burst that moved between two attempts is sealed again with a later time: the first one counts."""
    moved = START + timedelta(seconds=3)
    store.seals.insert(KEY, [seal(3)])
    [standing] = store.seals.insert(KEY, [seal(3, opened_at=moved)])
    assert standing.opened_at == START
    for tier in TIERS:
        assert store.seals.parts(KEY, [3], tier)[3].opened_at == START


def test_two_who_seal_neighbours_find_each_other_s(store: Store) -> None:
    mine, theirs = seal(3), seal(5, p0=from_offsets([2]))
    store.seals.insert(KEY, [mine])
    store.seals.insert(KEY, [theirs])
    found = store.seals.read(KEY, [3, 5])
    assert packed([found[3], found[5]]) == packed([mine, theirs])
    assert store.seals.tallies(KEY, [3, 5]) == {3: mine.tally(), 5: theirs.tally()}
    for tier in TIERS:
        parts, alerted = store.seals.parts(KEY, [3, 5], tier), store.seals.alerted(KEY, [3, 5], tier)
        for one in (mine, theirs):
            assert np.array_equal(parts[one.shard].members, one.tiers[tier])
            assert np.array_equal(alerted[one.shard], one.tiers[tier] & one.push)


def test_each_burst_has_seals_of_its_own(store: Store) -> None:
    store.seals.insert(KEY, [seal(3)])
    assert store.seals.read(BurstKey(NOVA, 2), [3]) == {}
    assert store.seals.read(BurstKey(ORION, 1), [3]) == {}


def test_a_seal_lives_a_week(store: Store) -> None:
    store.seals.insert(KEY, [seal(shard) for shard in range(10)])
    store.clock.advance(KEPT_FOR - timedelta(seconds=1))
    store.seals.insert(KEY, [seal(10)])
    assert store.inbox.sweep(store.clock.now(), 100) == 0
    store.clock.advance(timedelta(seconds=1))
    swept = [store.inbox.sweep(store.clock.now(), 4) for _ in range(4)]
    assert (sum(swept), swept[-1]) == (0 if store.expires else 10, 0)
    assert list(store.seals.read(KEY, range(11))) == [10]
