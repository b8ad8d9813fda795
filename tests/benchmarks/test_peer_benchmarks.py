"""Peer systems whose libraries are in our own environment run here on a few users.

Stream-Framework must be installed from a registry first, so no test runs it. `make bench-peers` does, and fails a peer
that reaches a user twice or not at all.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.audience import PeerDensity
from benchmarks.peers.delivery_comparison import Contest, names
from benchmarks.peers.registry import PEERS, Peer
from benchmarks.peers.subprocess_peer import PeerFailed, PeerProcess
from benchmarks.peers.valkey import PeersValkey, peers_valkey
from benchmarks.peers.virtualenvs import NotPrepared
from tests.cli.running_service import is_running, until

pytestmark = pytest.mark.prove

OURS = Path(sys.executable)
IN_OUR_ENVIRONMENT = [peer for peer in PEERS if peer.environment in {"celery", "redis"}]
PEOPLE = 7


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[PeersValkey]:
    with peers_valkey(tmp_path) as server:
        yield server


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people"
    np.arange(0, PEOPLE * 100_000, 100_000).astype("=i8").tofile(path)
    return path


def peer_process(class_path: str, valkey: PeersValkey, tmp_path: Path, python: Path = OURS) -> PeerProcess:
    return PeerProcess(python=python, place=class_path, argument=str(valkey.socket), log=tmp_path / "peer.log")


@pytest.mark.parametrize("peer", IN_OUR_ENVIRONMENT, ids=lambda peer: peer.name)
def test_peer_reaches_all_users_each_round_and_leaves_no_process(
    peer: Peer, valkey: PeersValkey, people: Path, tmp_path: Path
) -> None:
    with peer_process(peer.place, valkey, tmp_path) as running_peer:
        assert running_peer.process
        pids = [running_peer.process.pid, *children(running_peer.process.pid)]
        assert len(pids) == (2 if peer.name == "celery_per_follower" else 1)
        for burst in (1, 2):
            valkey.forget()
            assert running_peer.deliver(people, PEOPLE, burst) > 0
    assert [pid for pid in pids if is_running(pid)] == []


def test_peer_that_reaches_user_twice_fails(valkey: PeersValkey, people: Path, tmp_path: Path) -> None:
    with peer_process("pipelined_zadd:PipelinedZadd", valkey, tmp_path) as running_peer:
        running_peer.deliver(people, PEOPLE, 1)
        with pytest.raises(PeerFailed, match=f"it reached 0 of {PEOPLE} users"):
            running_peer.deliver(people, PEOPLE, 2)


def test_peer_with_missing_library_reports_it(valkey: PeersValkey, tmp_path: Path) -> None:
    with pytest.raises(PeerFailed, match="it ended: ModuleNotFoundError: No module named 'stream_framework'"):
        peer_process("stream_framework_feeds:flat", valkey, tmp_path).__enter__()


def test_killed_peer_ends_its_worker(valkey: PeersValkey, people: Path, tmp_path: Path) -> None:
    with peer_process("celery_per_follower:CeleryPerFollower", valkey, tmp_path) as running_peer:
        assert running_peer.process
        [worker] = children(running_peer.process.pid)
        running_peer.process.kill()
        running_peer.process.wait()
        until(lambda: not is_running(worker), 30.0)
        with pytest.raises(PeerFailed, match="it ended"):
            running_peer.deliver(people, PEOPLE, 1)


def test_uninstallable_peer_does_not_fail_other_peers(tmp_path: Path) -> None:
    def pythons(name: str) -> Path:
        if name != "redis":
            raise NotPrepared("cannot install celery.txt: no registry")
        return OURS

    one_shard = PeerDensity(per_cent=5, shards=1, quick_shards=1)
    contest = Contest(pythons=pythons, peers=IN_OUR_ENVIRONMENT, densities=[one_shard])
    results = {result.finding.name: result for result in contest(tmp_path, quick=True, tell=lambda _: None)}
    assert tuple(results) == names(IN_OUR_ENVIRONMENT, [one_shard])
    assert results["peer_ratio_at{pipelined_zadd,5%}"].peers
    assert results["peer_ratio{pipelined_zadd}"].finding.n == 3
    celery = results["peer_ratio{celery_per_follower}"].finding
    assert not celery.ok
    assert celery.detail == "celery_per_follower failed with NotPrepared: cannot install celery.txt: no registry"


def test_interrupt_ends_every_process_of_contest(tmp_path: Path) -> None:
    before = set(children(os.getpid()))
    started: set[int] = set()

    def tell(message: str) -> None:
        if "round 1" in message:
            started.update(set(children(os.getpid())) - before)
            raise KeyboardInterrupt

    one_shard = PeerDensity(per_cent=5, shards=1, quick_shards=1)
    contest = Contest(pythons=lambda _: OURS, peers=IN_OUR_ENVIRONMENT, densities=[one_shard])
    with pytest.raises(KeyboardInterrupt):
        contest(tmp_path, quick=True, tell=tell)
    assert len(started) == 3  # Valkey and two peers
    assert set(children(os.getpid())) & started == set()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
