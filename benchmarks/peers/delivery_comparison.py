"""`python -m benchmarks peers`: reaches the same followers with ours and other designs, in turns."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.costs_and_figures import Figure
from benchmarks.peers.audience import DENSITIES, PeerDensity, written
from benchmarks.peers.product_side import Delivered, ProductSide, ours
from benchmarks.peers.ratios_of_rounds import Rounds, figures
from benchmarks.peers.registry import PEERS, Peer
from benchmarks.peers.subprocess_peer import PeerProcess
from benchmarks.peers.valkey import PeersValkey, peers_valkey

ROUNDS, QUICK_ROUNDS = 6, 3
"""Counted rounds. One warm-up round comes before them, and a delivery of ours that lengthens its write-ahead logs."""

Pythons = Callable[[str], Path]
"""Returns the path of an environment's Python, and creates the environment if necessary."""
Tell = Callable[[str], None]


def names(peers: Sequence[Peer] = PEERS, densities: Sequence[PeerDensity] = DENSITIES) -> tuple[str, ...]:
    """Return the names of the figures."""
    return tuple(
        name for peer in peers for name in (peer.figure, *(peer.figure_at(density.name) for density in densities))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    pythons: Pythons
    peers: Sequence[Peer] = PEERS
    densities: Sequence[PeerDensity] = DENSITIES

    def __call__(self, folder: Path, *, quick: bool, tell: Tell) -> list[Figure]:
        """Run the comparison. A peer that can't be measured fails only its own figures."""
        meeting = PeerRounds(quick=quick, tell=tell)
        with peers_valkey(folder) as valkey, ExitStack() as stack:
            for peer in self.peers:
                tell(f"preparing {peer.name}")
                meeting.enter(peer, valkey, folder, self.pythons, stack)
            for density in self.densities:
                meeting.meet(folder / density.name, density, valkey)
        return figures(meeting.outcome(), [density.name for density in self.densities])


@dataclass(slots=True, kw_only=True)
class PeerRounds:
    """The peers that take part, and their results."""

    quick: bool
    tell: Tell
    guests: dict[Peer, PeerProcess] = field(default_factory=dict)
    out: dict[Peer, str] = field(default_factory=dict)
    """Peers that have failed, with the reason."""
    rounds: dict[Peer, list[Rounds]] = field(default_factory=dict)

    def enter(self, peer: Peer, valkey: PeersValkey, folder: Path, pythons: Pythons, stack: ExitStack) -> None:
        self.rounds[peer] = []
        with self._excused(peer):
            guest = PeerProcess(
                python=pythons(peer.environment),
                place=peer.place,
                argument=str(valkey.socket),
                log=folder / f"{peer.name}.log",
            )
            self.guests[peer] = stack.enter_context(guest)

    def meet(self, folder: Path, density: PeerDensity, valkey: PeersValkey) -> None:
        """Run all rounds at one density."""
        self.tell(f"filling our inboxes for {density.name}")
        folder.mkdir()
        with ours(folder / "ours", density, quick=self.quick) as mine:
            mine.deliver(1)
            sizes = {peer: peer.size(quick=self.quick) for peer in self.guests}
            files = written(folder, mine.people(1), sizes.values())
            crowds = {peer: files[size] for peer, size in sizes.items()}
            self._play(mine, density, valkey, crowds)
        shutil.rmtree(folder)

    def outcome(self) -> Mapping[Peer, Sequence[Rounds] | str]:
        return {peer: self.out.get(peer, rounds) for peer, rounds in self.rounds.items()}

    def _play(
        self, mine: ProductSide, density: PeerDensity, valkey: PeersValkey, crowds: Mapping[Peer, tuple[Path, int]]
    ) -> None:
        our_rounds: list[Delivered] = []
        theirs: dict[Peer, list[Delivered]] = {peer: [] for peer in self.guests}
        counted = QUICK_ROUNDS if self.quick else ROUNDS
        for number in range(counted + 1):
            self.tell(f"{density.name}: round {number} of {counted}" if number else f"{density.name}: warm-up")
            # Each side goes first in turn, so that no side always runs after the same one.
            sides: list[Peer | None] = [None, *self.guests]
            turn = number % len(sides)
            for side in sides[turn:] + sides[:turn]:
                if side is None:
                    our_rounds.append(mine.deliver(number + 2))
                elif side in self.guests:
                    self._visit(side, crowds[side], number, valkey, theirs[side])
        for peer in self.guests:
            self.rounds[peer].append(
                Rounds(density=density.name, judged=density.judged, ours=our_rounds[1:], peer=theirs[peer][1:])
            )

    def _visit(
        self, peer: Peer, crowd: tuple[Path, int], number: int, valkey: PeersValkey, done: list[Delivered]
    ) -> None:
        people, count = crowd
        valkey.forget()
        with self._excused(peer):
            done.append(Delivered(people=count, seconds=self.guests[peer].deliver(people, count, number)))

    @contextmanager
    def _excused(self, peer: Peer) -> Iterator[None]:
        """Exclude a peer that fails. The others continue."""
        try:
            yield
        except Exception as cause:
            reason = " ".join(str(cause).split()) or "no message"
            self.out[peer] = f"{peer.name} failed with {type(cause).__name__}: {reason}"
            self.guests.pop(peer, None)
            self.tell(self.out[peer])
