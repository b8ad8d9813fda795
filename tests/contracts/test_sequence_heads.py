"""Sequence heads are replaced by compare-and-set."""

from dataclasses import replace

from notifier.domain.bursts.sequencer import Head, SequencedMention
from notifier.domain.token_bucket import TokenBucket
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION, burst, mention
from tests.support.fakes.clock_and_nonces import START

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
    sequenced=(SequencedMention(mention=mention(), seq=1),),
)


def test_new_subject_has_fresh_head(store: Store) -> None:
    assert store.heads.load([NOVA, ORION]) == {NOVA: Head.empty(NOVA), ORION: Head.empty(ORION)}


def test_head_is_read_as_written(store: Store) -> None:
    assert store.heads.compare_and_set([FIRST]) == [True]
    with reopened(store) as other_process:
        assert other_process.heads.load([NOVA]) == {NOVA: FIRST}


def test_only_next_version_is_accepted(store: Store) -> None:
    store.heads.compare_and_set([FIRST])
    assert store.heads.compare_and_set([replace(FIRST, version=3, nonce="three")]) == [False]
    assert store.heads.compare_and_set([replace(FIRST, version=2, nonce="two")]) == [True]
    assert store.heads.load([NOVA])[NOVA].nonce == "two"


def test_first_head_needs_version_one(store: Store) -> None:
    assert store.heads.compare_and_set([replace(FIRST, version=2)]) == [False]
    assert store.heads.load([NOVA]) == {NOVA: Head.empty(NOVA)}


def test_first_writer_of_a_version_wins(store: Store) -> None:
    store.heads.compare_and_set([FIRST])
    assert store.heads.compare_and_set([replace(FIRST, nonce="other", seq=9)]) == [False]
    assert store.heads.load([NOVA])[NOVA] == FIRST


def test_repeated_swap_reports_success_to_its_own_writer(store: Store) -> None:
    second = replace(FIRST, version=2, nonce="two")
    store.heads.compare_and_set([FIRST])
    store.heads.compare_and_set([second])
    assert store.heads.compare_and_set([second]) == [True]
    assert store.heads.compare_and_set([FIRST]) == [False]
    assert store.heads.load([NOVA])[NOVA] == second


def test_each_swap_of_batch_is_independent(store: Store) -> None:
    store.heads.compare_and_set([FIRST])
    late, early = replace(FIRST, nonce="late"), Head(subject=ORION, version=1, nonce="o", applied={})
    assert store.heads.compare_and_set([late, early]) == [False, True]
    assert store.heads.load([ORION])[ORION] == early


def test_unpublished_heads_are_listed_until_outbox_is_empty(store: Store) -> None:
    orion = replace(FIRST, subject=ORION)
    store.heads.compare_and_set([FIRST, orion])
    assert sorted(store.heads.unpublished(10)) == [NOVA, ORION]
    assert len(store.heads.unpublished(1)) == 1
    store.heads.compare_and_set([replace(FIRST, version=2, nonce="two", outbox=(), sequenced=())])
    assert store.heads.unpublished(10) == [ORION]
