"""Peer benchmark: ratios are per round, and the worse density decides."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.costs_and_figures import Spread
from benchmarks.peers.audience import DENSITIES, PeerDensity, sample, written
from benchmarks.peers.delivery_comparison import names
from benchmarks.peers.product_side import Delivered
from benchmarks.peers.ratios_of_rounds import Rounds, figures
from benchmarks.peers.registry import PEERS, Peer
from notifier.devkit.fixture.world_bitmaps import WorldBitmaps
from notifier.domain.audience.bitmap import SHARD_MEMBERS, count
from notifier.domain.audience.tiers_and_member_sets import SetKind
from tests.repo.repository_files import ROOT

PEER = Peer(name="slow", place="f:n", environment="e", people=10, quick_people=5, limit=5.0)


def rounds(density: str, ours: list[float], peer: list[float], *, judged: bool = True) -> Rounds:
    return Rounds(
        density=density,
        judged=judged,
        ours=[Delivered(people=int(rate), seconds=1.0, snapshot_seconds=1.0) for rate in ours],
        peer=[Delivered(people=int(rate) * 2, seconds=2.0) for rate in peer],
    )


def test_worst_judged_density_decides() -> None:
    """The ratio of medians would be 8 at 5%; the median of ratios per round is 4."""
    five = rounds("5%", [80, 40, 80], [10, 10, 20])
    many, few = rounds("25%", [900, 900, 900], [10, 10, 10]), rounds("1%", [1], [10], judged=False)
    worst, *by_density = [figure.finding for figure in figures({PEER: [five, many, few]}, ["5%", "25%", "1%"])]
    assert (worst.name, worst.value, worst.limit, worst.ok, worst.n) == ("peer_ratio{slow}", 4.0, 5.0, False, 3)
    assert "4.0 at 5% (4.0 to 8.0)" in worst.detail
    assert "90.0 at 25%" in worst.detail
    assert [(finding.name, finding.value, finding.limit, finding.ok) for finding in by_density] == [
        ("peer_ratio_at{slow,5%}", 4.0, None, True),
        ("peer_ratio_at{slow,25%}", 90.0, None, True),
        ("peer_ratio_at{slow,1%}", 0.1, None, True),
    ]
    assert "45.0 with audience snapshots on our side" in by_density[1].detail


@pytest.mark.parametrize(("rate", "ok"), [(20, True), (5, False)])
def test_density_with_its_own_limit_is_judged_by_it(rate: float, ok: bool) -> None:
    peer = replace(PEER, limits_at=(("1%", 1.0),))
    few = rounds("1%", [rate], [10], judged=False)
    _, five_percent, one_percent = [
        figure.finding for figure in figures({peer: [rounds("5%", [80], [10]), few]}, ["5%", "1%"])
    ]
    assert (one_percent.name, one_percent.limit, one_percent.ok) == ("peer_ratio_at{slow,1%}", 1.0, ok)
    assert (five_percent.limit, five_percent.ok) == (None, True)


def test_speeds_are_those_of_the_deciding_density() -> None:
    figure = figures({PEER: [rounds("5%", [60, 40, 50], [10, 12, 14]), rounds("25%", [900], [10])]}, ["5%", "25%"])[0]
    assert figure.ours == Spread(min=40, median=50, max=60, unit="deliveries/s", n=3)
    assert figure.peers == Spread(min=10, median=12, max=14, unit="deliveries/s", n=3)


def test_failed_peer_fails_all_its_figures() -> None:
    findings = [figure.finding for figure in figures({PEER: "slow failed"}, ["5%"])]
    assert [(finding.name, finding.ok, finding.value, finding.n, finding.detail) for finding in findings] == [
        ("peer_ratio{slow}", False, None, 0, "slow failed"),
        ("peer_ratio_at{slow,5%}", False, None, 0, "slow failed"),
    ]


def test_promised_figures_have_their_limits() -> None:
    assert {peer.figure: peer.limit for peer in PEERS} == {
        "peer_ratio{stream_framework_notification}": 100.0,
        "peer_ratio{stream_framework_flat}": 30.0,
        "peer_ratio{pipelined_zadd}": 5.0,
        "peer_ratio{celery_per_follower}": 500.0,
    }
    assert len(names()) == len(PEERS) * (1 + len(DENSITIES))
    assert [density.per_cent for density in DENSITIES if density.judged] == [5, 25]
    assert {peer.figure_at(density): limit for peer in PEERS for density, limit in peer.limits_at} == {
        "peer_ratio_at{stream_framework_notification,1%}": 70.0,
        "peer_ratio_at{pipelined_zadd,1%}": 1.0,
    }


def test_document_describes_every_peer() -> None:
    document = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert [peer.name for peer in PEERS if f"| `{peer.name}` |" not in document] == []


@pytest.mark.parametrize("density", DENSITIES, ids=lambda density: density.name)
def test_audience_density_matches_its_name(density: PeerDensity) -> None:
    world = density.world(quick=True)
    active = count(WorldBitmaps(world).account_wide_set(SetKind.ACTIVE_24H, 0))
    assert active / SHARD_MEMBERS == pytest.approx(density.per_cent / 100, abs=0.001)
    assert world.followers == world.universe


def test_sample_is_spread_evenly_within_the_audience(tmp_path: Path) -> None:
    audience = np.arange(0, 1000, 2)
    assert sample(audience, 5).tolist() == [0, 200, 400, 600, 800]
    assert sample(audience, 9999).tolist() == audience.tolist()
    files = written(tmp_path, audience, [5, 9999])
    assert {size: held for size, (_, held) in files.items()} == {5: 5, 9999: 500}
    assert np.fromfile(files[5][0], dtype="=i8").tolist() == [0, 200, 400, 600, 800]
