"""The contract of the heads."""

from dataclasses import replace

from notifier.domain.bursts.sequencer import Head, Sequenced
from notifier.domain.token_bucket import TokenBucket
from tests.contracts.flow_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION, burst, mention
from tests.support.fakes.clock import START

FIRST = Head(
    subject=NOVA,
    version=1,
    nonce="one",
    seq=1,
    open=burst(),
    last_opened_at=START,
    budget=TokenBucket(tokens=5.5, at=START),
    applied={"mentions.celebrity/3": 7},
    outbox=(burst(),),
    sequenced=(Sequenced(mention=mention(), seq=1),),
)


def test_a_subject_that_has_none_gets_a_fresh_head(store: Store) -> None:
    assert store.heads.load([NOVA, ORION]) == {NOVA: Head.fresh(NOVA), ORION: Head.fresh(ORION)}


def test_a_head_comes_back_as_it_was_swapped_in(store: Store) -> None:
    assert store.heads.swap([FIRST]) == [True]
    with reopened(store) as again:
        assert again.heads.load([NOVA]) == {NOVA: FIRST}


def test_only_the_next_version_is_swapped_in(store: Store) -> None:
    store.heads.swap([FIRST])
    assert store.heads.swap([replace(FIRST, version=3, nonce="three")]) == [False]
    assert store.heads.swap([replace(FIRST, version=2, nonce="two")]) == [True]
    assert store.heads.load([NOVA])[NOVA].nonce == "two"


def test_a_first_head_has_version_one(store: Store) -> None:
    assert store.heads.swap([replace(FIRST, version=2)]) == [False]
    assert store.heads.load([NOVA]) == {NOVA: Head.fresh(NOVA)}


def test_of_two_writers_of_a_version_the_first_wins(store: Store) -> None:
    store.heads.swap([FIRST])
    assert store.heads.swap([replace(FIRST, nonce="other", seq=9)]) == [False]
    assert store.heads.load([NOVA])[NOVA] == FIRST


def test_a_writer_whose_answer_was_lost_learns_that_the_swap_was_done(store: Store) -> None:
    second = replace(FIRST, version=2, nonce="two")
    store.heads.swap([FIRST])
    store.heads.swap([second])
    assert store.heads.swap([second]) == [True]
    assert store.heads.swap([FIRST]) == [False]
    assert store.heads.load([NOVA])[NOVA] == second


def test_each_swap_of_a_batch_stands_alone(store: Store) -> None:
    store.heads.swap([FIRST])
    late, early = replace(FIRST, nonce="late"), Head(subject=ORION, version=1, nonce="o", applied={})
    assert store.heads.swap([late, early]) == [False, True]
    assert store.heads.load([ORION])[ORION] == early


def test_heads_with_work_left_are_listed_until_they_are_published(store: Store) -> None:
    orion = replace(FIRST, subject=ORION)
    store.heads.swap([FIRST, orion])
    assert sorted(store.heads.unpublished(10)) == [NOVA, ORION]
    assert len(store.heads.unpublished(1)) == 1
    store.heads.swap([replace(FIRST, version=2, nonce="two", outbox=(), sequenced=())])
    assert store.heads.unpublished(10) == [ORION]
