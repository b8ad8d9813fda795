"""`python -m benchmarks peers`: reach the same followers by ours and by other people's ways, in turns."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.audience import DENSITIES, PeerDensity, written
from benchmarks.peers.figures import Rounds, figures
from benchmarks.peers.ours import Delivered, ProductSide, ours
from benchmarks.peers.registry import PEERS, Peer
from benchmarks.peers.subprocess_peer import PeerProcess
from benchmarks.peers.valkey import PeersValkey, peers_valkey
from benchmarks.rounds import Figure

ROUNDS, QUICK_ROUNDS = 6, 3
"""Counted; the one before warms everybody up, and ours has lengthened its write-ahead logs before that."""

Pythons = Callable[[str], Path]
"""Makes the environment of a name, if need be, and says where its Python is."""
Tell = Callable[[str], None]


def names(peers: Sequence[Peer] = PEERS, densities: Sequence[PeerDensity] = DENSITIES) -> tuple[str, ...]:
    """Of the figures."""
    return tuple(
        name for peer in peers for name in (peer.figure, *(peer.figure_at(density.name) for density in densities))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    pythons: Pythons
    peers: Sequence[Peer] = PEERS
    densities: Sequence[PeerDensity] = DENSITIES

    def __call__(self, folder: Path, *, quick: bool, tell: Tell) -> list[Figure]:
        """A peer that can't be measured fails its own figures alone."""
        meeting = PeerRounds(quick=quick, tell=tell)
        with peers_valkey(folder) as valkey, ExitStack() as stack:
            for peer in self.peers:
                tell(f"getting ready: {peer.name}")
                meeting.enter(peer, valkey, folder, self.pythons, stack)
            for density in self.densities:
                meeting.meet(folder / density.name, density, valkey)
        return figures(meeting.outcome(), [density.name for density in self.densities])


@dataclass(slots=True, kw_only=True)
class PeerRounds:
    """Those who take part, and what they did."""

    quick: bool
    tell: Tell
    guests: dict[Peer, PeerProcess] = field(default_factory=dict)
    out: dict[Peer, str] = field(default_factory=dict)
    """Those who don't take part any more, and why."""
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
        """All rounds at one density."""
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
            self.tell(f"{density.name}: round {number} of {counted}" if number else f"{density.name}: warming up")
            # Each in turn is the first, so that nobody always has the machine as the same other one left it.
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
        """A peer that fails is out; the others go on."""
        try:
            yield
        except Exception as cause:
            reason = " ".join(str(cause).split()) or "no words"
            self.out[peer] = f"{peer.name} ended with {type(cause).__name__}: {reason}"
            self.guests.pop(peer, None)
            self.tell(self.out[peer])
