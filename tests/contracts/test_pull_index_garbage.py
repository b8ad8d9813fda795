"""The pull index with garbage: it claims nothing false, and a rebuild repairs it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.adapters.redis.pull_index_reader import AS_OF, NONCE, SINCE, part_key, part_of
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Subject
from tests.contracts.pull_index_backends import BEFORE, NOON, NOVA, SUBJECTS, burst, on_valkey, seqs
from tests.contracts.redis_garbage import STRINGS
from tests.contracts.test_pull_index_races import ACTIONS, IndexModel
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]

LIST = "list"
FIELDS = (NONCE, SINCE, AS_OF, LIST)


@dataclass
class GarbledIndexModel(IndexModel):
    """A model in which garbage appears in the index between any two actions."""

    valkey: Valkey = field(kw_only=True)

    def garble(self, subject: Subject, name: str, garbage: bytes) -> None:
        self.valkey.client.hset(part_key(part_of(subject)), str(subject) if name == LIST else name, garbage)

    def reconcile(self) -> None:
        """Run one round of the reconciler."""
        with suppress(CacheUnavailable):
            if self.backend.index.generation() is None:
                self.backend.rebuild_only(self.store, BEFORE)
            else:
                self.backend.index.record_comparison(BEFORE, NOON)


ACTION = st.tuples(
    st.sampled_from([*ACTIONS, "garble", "garble"]),
    st.sampled_from(SUBJECTS[:2]),
    st.integers(0, 12),
    st.sampled_from(FIELDS),
    st.sampled_from(list(STRINGS.values())) | st.binary(max_size=48),
)


@pytest.mark.timeout(300)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(st.lists(ACTION, max_size=30))
def test_garbled_index_never_claims_missing_bursts(
    valkey: Valkey, actions: Sequence[tuple[str, Subject, int, str, bytes]]
) -> None:
    valkey.wipe()
    model = GarbledIndexModel(on_valkey(valkey), valkey=valkey)
    for action, subject, pick, name, garbage in actions:
        if action == "garble":
            model.garble(subject, name, garbage)
        else:
            model.act(action, subject, pick)
        model.check()
    while model.unannounced:
        model.announce(model.unannounced.pop())
    # Each read deletes the garbage that it meets, and each round of the reconciler rebuilds what was deleted.
    for _ in range(3):
        model.reconcile()
        model.check()
    assert all(model.backend.read_newest([subject]).complete_since is not None for subject in SUBJECTS)


def test_list_of_another_subject_counts_as_garbage(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    [other_subject] = [
        subject for subject in map(Subject.parse, map("mention:u{}".format, range(999))) if same_part(subject)
    ][:1]
    backend.rebuild([burst(4), burst(7, other_subject)])
    name = part_key(part_of(NOVA))
    valkey.client.hset(name, str(NOVA), valkey.client.hget(name, str(other_subject)) or b"")
    assert backend.read_newest([NOVA]).complete_since is None


def same_part(subject: Subject) -> bool:
    return part_of(subject) == part_of(NOVA)


def test_garbage_in_list_ends_generation_when_read(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    valkey.client.hset(part_key(part_of(NOVA)), str(NOVA), b"garbage")
    assert backend.read_newest([NOVA]).complete_since is None
    assert backend.index.generation() is None
    backend.rebuild_only([burst(4)])
    assert seqs(backend.read_newest([NOVA])) == [4]


def test_announcement_that_meets_garbage_is_not_lost(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    valkey.client.hset(part_key(part_of(NOVA)), str(NOVA), b"garbage")
    backend.index.announce([burst(5)])
    assert backend.read_newest([NOVA]).complete_since is None
    assert backend.index.generation() is None
    backend.rebuild_only([burst(4)])
    assert seqs(backend.read_newest([NOVA])) == [5, 4]


def test_garbage_between_pages_aborts_rebuild(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.index.generation()

    def pages() -> object:
        yield [burst(5)]
        valkey.client.hset(part_key(part_of(NOVA)), str(NOVA), b"garbage")
        yield [burst(4)]

    with pytest.raises(CacheUnavailable):
        backend.index.rebuild(pages(), BEFORE, NOON)  # type: ignore[arg-type]  # it yields pages
    assert backend.read_newest([NOVA]).complete_since is None
    backend.rebuild([burst(4), burst(5)])
    assert seqs(backend.read_newest([NOVA])) == [5, 4]


def test_new_generation_replaces_garbage_nonce(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    valkey.client.hset(part_key(0), NONCE, b"\xff")
    assert backend.index.generation() is None
    backend.rebuild_only([burst(4)])
    backend.index.record_comparison(BEFORE, NOON + timedelta(0))
    assert backend.index.generation() is not None
