"""The peers' processes: those whose libraries ours has too run here in our own environment, on a few people.

Stream-Framework must be installed from a registry first, so no test runs it: `make bench-peers` does, and fails a peer
that reached one of its people not at all or twice.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.audience import Density
from benchmarks.peers.contest import Contest, names
from benchmarks.peers.registry import PEERS, Peer
from benchmarks.peers.subprocess_peer import Guest, GuestFailed
from benchmarks.peers.valkey import PeersValkey, peers_valkey
from benchmarks.peers.virtualenvs import NotPrepared
from tests.cli.running import lives, until

OURS = Path(sys.executable)
IN_OUR_ENVIRONMENT = [peer for peer in PEERS if peer.environment in {"celery", "redis"}]
PEOPLE = 7


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[PeersValkey]:
    with peers_valkey(tmp_path) as found:
        yield found


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people"
    np.arange(0, PEOPLE * 100_000, 100_000).astype("=i8").tofile(path)
    return path


def guest(place: str, valkey: PeersValkey, tmp_path: Path, python: Path = OURS) -> Guest:
    return Guest(python=python, place=place, given=str(valkey.socket), log=tmp_path / "guest.log")


@pytest.mark.parametrize("peer", IN_OUR_ENVIRONMENT, ids=lambda peer: peer.name)
def test_a_peer_reaches_everybody_in_each_round_and_leaves_no_process(
    peer: Peer, valkey: PeersValkey, people: Path, tmp_path: Path
) -> None:
    with guest(peer.place, valkey, tmp_path) as asked:
        assert asked.process
        pids = [asked.process.pid, *children(asked.process.pid)]
        assert len(pids) == (2 if peer.name == "celery_per_follower" else 1)
        for burst in (1, 2):
            valkey.forget()
            assert asked.deliver(people, PEOPLE, burst) > 0
    assert [pid for pid in pids if lives(pid)] == []


def test_a_peer_that_reaches_somebody_twice_is_found_out(valkey: PeersValkey, people: Path, tmp_path: Path) -> None:
    with guest("pipelined_zadd:PipelinedZadd", valkey, tmp_path) as asked:
        asked.deliver(people, PEOPLE, 1)
        with pytest.raises(GuestFailed, match=f"It reached 0 of {PEOPLE} people"):
            asked.deliver(people, PEOPLE, 2)


def test_a_peer_whose_library_is_missing_says_so(valkey: PeersValkey, tmp_path: Path) -> None:
    with pytest.raises(GuestFailed, match="It ended: ModuleNotFoundError: No module named 'stream_framework'"):
        guest("stream_framework_feeds:flat", valkey, tmp_path).__enter__()


def test_a_killed_peer_takes_its_worker_along(valkey: PeersValkey, people: Path, tmp_path: Path) -> None:
    with guest("celery_per_follower:CeleryPerFollower", valkey, tmp_path) as asked:
        assert asked.process
        [worker] = children(asked.process.pid)
        asked.process.kill()
        asked.process.wait()
        until(lambda: not lives(worker), 10.0)
        with pytest.raises(GuestFailed, match="It ended"):
            asked.deliver(people, PEOPLE, 1)


def test_who_cannot_be_installed_fails_alone_and_the_others_are_measured(tmp_path: Path) -> None:
    def pythons(name: str) -> Path:
        if name != "redis":
            raise NotPrepared("celery.txt can't be installed: no registry.")
        return OURS

    one_shard = Density(per_cent=5, shards=1, quick_shards=1)
    contest = Contest(pythons=pythons, peers=IN_OUR_ENVIRONMENT, densities=[one_shard])
    found = {each.finding.name: each for each in contest(tmp_path, quick=True, tell=lambda _: None)}
    assert tuple(found) == names(IN_OUR_ENVIRONMENT, [one_shard])
    assert found["peer_ratio_at{pipelined_zadd,5%}"].peers
    assert found["peer_ratio{pipelined_zadd}"].finding.n == 3
    celery = found["peer_ratio{celery_per_follower}"].finding
    assert not celery.ok
    assert celery.detail == "celery_per_follower ended with NotPrepared: celery.txt can't be installed: no registry."


def test_an_interruption_ends_every_process_of_the_contest(tmp_path: Path) -> None:
    before = set(children(os.getpid()))
    begun: set[int] = set()

    def tell(words: str) -> None:
        if "round 1" in words:
            begun.update(set(children(os.getpid())) - before)
            raise KeyboardInterrupt

    one_shard = Density(per_cent=5, shards=1, quick_shards=1)
    contest = Contest(pythons=lambda _: OURS, peers=IN_OUR_ENVIRONMENT, densities=[one_shard])
    with pytest.raises(KeyboardInterrupt):
        contest(tmp_path, quick=True, tell=tell)
    assert len(begun) == 3  # Valkey and two peers
    assert set(children(os.getpid())) & begun == set()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
