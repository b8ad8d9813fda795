"""Measures CPU time per alert: our senders against other libraries, in turns, on one server."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.costs_and_figures import Cost, Figure, Spread, cost, unjudged
from benchmarks.fanout.suite import Part, Parts
from benchmarks.peers.subprocess_peer import SERVE, PeerFailed, PeerProcess
from benchmarks.push.other_libraries import RIVALS, Rival
from benchmarks.push.our_senders import LIMITS, Place, alert, answers, devices, sent
from notifier.adapters.http2 import Http2Transport
from notifier.devkit.check.finding_and_quantiles import at_most
from tests.support.certificate_authority import Authority
from tests.support.http2_server_process import server_process

ROUNDS, ROUNDS_QUICK = 7, 3
"""Counted rounds, after one warm-up round."""
QUICK = 2
"""Divisor of the sends per round with `--quick`."""
LOOP = SERVE.with_name("run_alert_peer.py")
TRUSTED = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
"""Variables with the certificates, for libraries that accept them in no other way."""

Pythons = Callable[[str], Path]
"""Returns the path of an environment's Python, and creates the environment if necessary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRound:
    """Costs of one send on each side."""

    ours: Cost
    theirs: Mapping[str, Cost]
    """The other library's costs by its ways of sending."""

    @property
    def cheapest(self) -> Cost:
        return min(self.theirs.values(), key=lambda cost_: cost_.processor)

    @property
    def ratio(self) -> float:
        return self.ours.processor / self.cheapest.processor


def parts(pythons: Pythons, rivals: Sequence[Rival] = RIVALS) -> Parts:
    return {rival.part: (_part(rival, pythons), rival.figures) for rival in rivals}


def _part(rival: Rival, pythons: Pythons) -> Part:
    def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
        tell(f"preparing {rival.name}")
        python = pythons(rival.environment)
        authority = Authority.create(folder, "authority")
        with server_process(answers, certificate=authority.server()) as server:
            place = Place(origin=server.origin, authority=authority.file)
            guest = PeerProcess(
                python=python,
                place=rival.place,
                argument=json.dumps(rival.arguments(place, alert())),
                log=folder / f"{rival.part}.log",
                script=LOOP,
                settings=dict.fromkeys(TRUSTED, str(authority.file)),
            )
            with guest:
                rounds = _rounds(rival, place, guest, quick=quick, tell=tell)
        return figures(rival, rounds[1:])

    return run


def _rounds(
    rival: Rival, place: Place, guest: PeerProcess, *, quick: bool, tell: Callable[[str], None]
) -> list[SendRound]:
    its, mine = (many // QUICK if quick else many for many in (rival.many, rival.ours_many))
    targets, shown, rounds = devices(rival.address, place, mine), alert(), list[SendRound]()
    with closing(Http2Transport(limits=LIMITS, ca_file=place.authority)) as transport:
        sender = rival.sender(place, transport)
        for number in range(1 + (ROUNDS_QUICK if quick else ROUNDS)):
            tell(f"round {number}: ours, then {rival.name}" if number else "warm-up")
            cost_ = cost(lambda: sent(sender, shown, targets))
            theirs = {way: asked(guest, number * its, its, way) for way in rival.ways}
            rounds.append(SendRound(ours=_of_one(cost_, mine), theirs=theirs))
    return rounds


def asked(guest: PeerProcess, begin: int, many: int, way: str) -> Cost:
    """Return the cost of one send. Raises PeerFailed unless all are accepted."""
    answer = guest.ask({"begin": begin, "many": many, "way": way})
    if answer["accepted"] != many:
        raise PeerFailed(f"only {answer['accepted']:,} of {many:,} alerts were accepted")
    return _of_one(Cost(seconds=answer["seconds"], processor=answer["processor"]), many)


def _of_one(taken: Cost, many: int) -> Cost:
    return Cost(seconds=taken.seconds / many, processor=taken.processor / many)


def figures(rival: Rival, rounds: Sequence[SendRound]) -> list[Figure]:
    us, per_s = rival.figures
    mine, its = ([side.processor * 1e6 for side in sides] for sides in _sides(rounds))
    ours_s, its_s = ([1 / side.seconds for side in sides] for sides in _sides(rounds))
    ratios = [round_.ratio for round_ in rounds]
    spread, against = Spread.of(mine, "us"), Spread.of(its, "us")
    detail = f"{spread.median:.1f} us against {against.median:,.0f} with {rival.name}{_ways(rival, rounds)}"
    limit = at_most(us, median(ratios), 1 / rival.share, unit="ratio", n=len(rounds), detail=detail)
    speed = unjudged(per_s, Spread.of(ours_s, "1/s"), len(rounds), f"{rival.name}: {median(its_s):,.0f}")
    return [
        Figure(finding=limit, ours=spread, peers=against),
        Figure(finding=speed.finding, ours=speed.ours, peers=Spread.of(its_s, "1/s")),
    ]


def _sides(rounds: Sequence[SendRound]) -> tuple[list[Cost], list[Cost]]:
    return [round_.ours for round_ in rounds], [round_.cheapest for round_ in rounds]


def _ways(rival: Rival, rounds: Sequence[SendRound]) -> str:
    if len(rival.ways) == 1:
        return ""
    medians = {way: median(round_.theirs[way].processor for round_ in rounds) * 1e6 for way in rival.ways}
    return f", cheapest of {', '.join(f'{way} {us:,.0f}' for way, us in medians.items())}"
