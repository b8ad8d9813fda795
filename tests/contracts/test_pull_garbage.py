"""The pull index with garbage in its parts: it proves nothing that isn't so, and is complete again after a rebuild."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.adapters.redis.pull_reader import AS_OF, EPOCH, SINCE, key, part_of
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Subject
from tests.contracts.garbage import STRINGS
from tests.contracts.pull_backends import BEFORE, NOON, NOVA, SUBJECTS, burst, on_valkey, seqs
from tests.contracts.test_pull_races import ACTIONS, World
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]

LIST = "list"
FIELDS = (EPOCH, SINCE, AS_OF, LIST)


@dataclass
class GarbledWorld(World):
    """A world in which garbage appears in the index between any two actions."""

    valkey: Valkey = field(kw_only=True)

    def garble(self, subject: Subject, name: str, garbage: bytes) -> None:
        self.valkey.client.hset(key(part_of(subject)), str(subject) if name == LIST else name, garbage)

    def reconcile(self) -> None:
        """A round of the reconciler."""
        with suppress(CacheUnavailable):
            if self.backend.index.generation() is None:
                self.backend.rebuilt(self.store, BEFORE)
            else:
                self.backend.index.compared(BEFORE, NOON)


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
def test_garbled_index_never_claims_what_it_lacks(
    valkey: Valkey, actions: Sequence[tuple[str, Subject, int, str, bytes]]
) -> None:
    valkey.wipe()
    world = GarbledWorld(on_valkey(valkey), valkey=valkey)
    for action, subject, pick, name, garbage in actions:
        if action == "garble":
            world.garble(subject, name, garbage)
        else:
            world.act(action, subject, pick)
        world.check()
    while world.unsaid:
        world.say(world.unsaid.pop())
    # Each look deletes the garbage that it meets, and each round of the reconciler rebuilds what was deleted.
    for _ in range(3):
        world.reconcile()
        world.check()
    assert all(world.backend.look([subject]).complete_since is not None for subject in SUBJECTS)


def test_list_of_another_subject_is_garbage(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    [other] = [s for s in map(Subject.parse, map("mention:u{}".format, range(999))) if same_part(s)][:1]
    backend.rebuild([burst(4), burst(7, other)])
    name = key(part_of(NOVA))
    valkey.client.hset(name, str(NOVA), valkey.client.hget(name, str(other)) or b"")
    assert backend.look([NOVA]).complete_since is None


def same_part(subject: Subject) -> bool:
    return part_of(subject) == part_of(NOVA)


def test_garbage_in_a_list_ends_the_generation_once_it_is_read(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    valkey.client.hset(key(part_of(NOVA)), str(NOVA), b"garbage")
    assert backend.look([NOVA]).complete_since is None
    assert backend.index.generation() is None
    backend.rebuilt([burst(4)])
    assert seqs(backend.look([NOVA])) == [4]


def test_garbage_met_by_an_announcement_costs_no_announcement(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    valkey.client.hset(key(part_of(NOVA)), str(NOVA), b"garbage")
    backend.index.announce([burst(5)])
    assert backend.look([NOVA]).complete_since is None
    assert backend.index.generation() is None
    backend.rebuilt([burst(4)])
    assert seqs(backend.look([NOVA])) == [5, 4]


def test_garbage_between_two_pages_ends_the_rebuild(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.index.generation()

    def pages() -> object:
        yield [burst(5)]
        valkey.client.hset(key(part_of(NOVA)), str(NOVA), b"garbage")
        yield [burst(4)]

    with pytest.raises(CacheUnavailable):
        backend.index.rebuilt(pages(), BEFORE, NOON)  # type: ignore[arg-type]  # it yields pages
    assert backend.look([NOVA]).complete_since is None
    backend.rebuild([burst(4), burst(5)])
    assert seqs(backend.look([NOVA])) == [5, 4]


def test_generation_replaces_an_epoch_that_is_garbage(valkey: Valkey) -> None:
    backend = on_valkey(valkey)
    backend.rebuild([burst(4)])
    valkey.client.hset(key(0), EPOCH, b"\xff")
    assert backend.index.generation() is None
    backend.rebuilt([burst(4)])
    backend.index.compared(BEFORE, NOON + timedelta(0))
    assert backend.index.generation() is not None
