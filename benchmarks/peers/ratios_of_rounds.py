"""Turns rounds into figures: a ratio per round, and the worse density is judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.costs_and_figures import Figure, Spread
from benchmarks.peers.product_side import Delivered
from benchmarks.peers.registry import Peer
from notifier.devkit.check.finding_and_quantiles import Finding, at_least

UNIT = "deliveries/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Results of our code and one peer at one density, in the same rounds."""

    density: str
    judged: bool
    ours: Sequence[Delivered]
    peer: Sequence[Delivered]

    @property
    def ratios(self) -> list[float]:
        return [mine.rate / its.rate for mine, its in zip(self.ours, self.peer, strict=True)]

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    def speeds(self) -> str:
        mine, its = (median(delivered.rate for delivered in side) for side in (self.ours, self.peer))
        spread = f"{self.ratio:,.1f} at {self.density} ({min(self.ratios):,.1f} to {max(self.ratios):,.1f})"
        return f"{spread}, {mine:,.0f} against {its:,.0f} deliveries/s"

    def with_snapshots(self) -> str:
        whole = [
            mine.people / (mine.seconds + mine.snapshot_seconds) / its.rate
            for mine, its in zip(self.ours, self.peer, strict=True)
        ]
        return f"{median(whole):,.1f} with audience snapshots on our side"

    def sizes(self) -> str:
        return f"{self.ours[0].people:,} users per round, {self.peer[0].people:,} of them for the peer"


def judged(peer: Peer, rounds: Sequence[Rounds]) -> Figure:
    """Judge the worst of the densities that have a limit. The detail has all of them."""
    promised = [rounds_ for rounds_ in rounds if rounds_.judged]
    worst = min(promised, key=lambda rounds_: rounds_.ratio)
    detail = "; ".join([f"worst: {worst.density}", *(rounds_.speeds() for rounds_ in promised), worst.sizes()])
    finding = at_least(peer.figure, worst.ratio, peer.limit, unit="ratio", n=len(worst.ratios), detail=detail)
    return _figure(finding, worst)


def density_figure(peer: Peer, rounds: Rounds) -> Figure:
    """Report the ratio at one density. It is judged if the peer has a limit for this density."""
    detail = f"{rounds.speeds()}; {rounds.with_snapshots()}; {rounds.sizes()}"
    limit, name = peer.limit_at(rounds.density), peer.figure_at(rounds.density)
    finding = at_least(name, rounds.ratio, limit or 0.0, unit="ratio", n=len(rounds.ratios), detail=detail)
    return _figure(replace(finding, limit=limit), rounds)


def failed(peer: Peer, densities: Sequence[str], why: str) -> list[Figure]:
    names = [peer.figure, *(peer.figure_at(density) for density in densities)]
    return [Figure(finding=Finding(name=name, ok=False, n=0, detail=why)) for name in names]


def figures(peers: Mapping[Peer, Sequence[Rounds] | str], densities: Sequence[str]) -> list[Figure]:
    """Return each peer's figures, from its rounds at every density or the reason for its failure."""
    all_figures: list[Figure] = []
    for peer, rounds in peers.items():
        if isinstance(rounds, str):
            all_figures += failed(peer, densities, rounds)
        else:
            all_figures += [judged(peer, rounds), *(density_figure(peer, rounds_) for rounds_ in rounds)]
    return all_figures


def _figure(finding: Finding, rounds: Rounds) -> Figure:
    return Figure(
        finding=finding,
        ours=Spread.of([delivered.rate for delivered in rounds.ours], UNIT),
        peers=Spread.of([delivered.rate for delivered in rounds.peer], UNIT),
    )
