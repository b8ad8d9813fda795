"""`python -m benchmarks NAME`: measure what is promised about speed, against a baseline in the same rounds."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from notifier.__main__ import stoppable
from notifier.cli.commands.demo import print_checks
from notifier.cli.group import ErrorReportingGroup, example
from notifier.cli.options import json_option
from notifier.cli.output import Check, envelope, print_lines
from notifier.domain.errors import Environment

if TYPE_CHECKING:
    from benchmarks.fanout.suite import Parts
    from benchmarks.rounds import Figure


environments_option = click.option(
    "--environments",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/peers"),
    show_default=True,
    metavar="DIR",
    help="Where the peers are installed, from hashed pins, when they aren't yet; that needs a package registry.",
)


@click.group(
    cls=ErrorReportingGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("python -m benchmarks fanout --quick"),
)
def bench() -> None:
    """Measure what is promised about speed; nothing else should run on the machine meanwhile."""


@bench.command(
    epilog=example(
        "python -m benchmarks fanout --quick", "python -m benchmarks fanout --only seal_shard_ms --only planning --json"
    )
)
@click.option("--quick", is_flag=True, help="Fewer rounds: under four minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part of them; may be given several times.")
@json_option
@click.pass_context
def fanout(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure how fast a burst reaches its audience, from one mention to 200,000,000 followers."""
    from benchmarks.fanout.suite import PARTS

    _bench(ctx, PARTS, quick=quick, only=only, as_json=as_json)


@bench.command(
    epilog=example("python -m benchmarks density --quick", "python -m benchmarks density --only density_gain --json")
)
@click.option("--quick", is_flag=True, help="Fewer rounds of fewer users: two minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part of them; may be given several times.")
@environments_option
@json_option
@click.pass_context
def density(ctx: click.Context, quick: bool, only: tuple[str, ...], environments: Path, as_json: bool) -> None:
    """Measure how fast people are reached when a burst is for few or many of them, ours and others in turns."""
    from benchmarks.fanout.density import DensityBench, names
    from benchmarks.peers.virtualenvs import Environments

    parts: Parts = {"density": (DensityBench(pythons=Environments(folder=environments)), names())}
    _bench(ctx, parts, quick=quick, only=only, as_json=as_json)


@bench.command(
    epilog=example("python -m benchmarks audience --quick", "python -m benchmarks audience --only universe --json")
)
@click.option("--quick", is_flag=True, help="Fewer rounds of less: under two minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part of them; may be given several times.")
@click.option(
    "--profile",
    type=click.Choice(["embedded", "cluster"]),
    default="embedded",
    show_default=True,
    help="In the cluster profile what Cassandra changes; it is started with Java and Maven.",
)
@json_option
@click.pass_context
def audience(ctx: click.Context, quick: bool, only: tuple[str, ...], profile: str, as_json: bool) -> None:
    """Measure what it costs to know whom a burst is for: import, universe, activity, and the ways of others."""
    from benchmarks.audience.suite import OF_CLUSTER, PARTS

    parts = OF_CLUSTER if profile == "cluster" else PARTS
    _bench(ctx, parts, quick=quick, only=only, as_json=as_json, profile=profile)


@bench.command(epilog=example("python -m benchmarks live --quick", "python -m benchmarks live --json"))
@click.option("--quick", is_flag=True, help="Fewer rounds: half a minute.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure; may be given several times.")
@json_option
@click.pass_context
def live(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure how soon those who look are told: one alone, and 1,000 open streams of one API process."""
    from benchmarks.live import PARTS

    _bench(ctx, PARTS, quick=quick, only=only, as_json=as_json)


@bench.command(
    epilog=example("python -m benchmarks startup --quick", "python -m benchmarks startup --only up_restart_s --json")
)
@click.option("--quick", is_flag=True, help="Fewer rounds: two minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part of them; may be given several times.")
@json_option
@click.pass_context
def startup(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure a start of `notifier up` with our fork server, with that of multiprocessing, and without any."""
    from benchmarks.startup.suite import PARTS

    _bench(ctx, PARTS, quick=quick, only=only, as_json=as_json)


@bench.command(
    epilog=example("python -m benchmarks page --quick", "python -m benchmarks page --only demo_ready_s --json")
)
@click.option("--quick", is_flag=True, help="Fewer rounds: three minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part of them; may be given several times.")
@json_option
@click.pass_context
def page(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure the demo's page as its visitor has it; all but its start needs a Chromium and what drives it."""
    from benchmarks.demo_page import PARTS

    _bench(ctx, PARTS, quick=quick, only=only, as_json=as_json)


@bench.command(epilog=example("python -m benchmarks push --quick", "python -m benchmarks push --only promises --json"))
@click.option("--quick", is_flag=True, help="Fewer rounds of less: six minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part of them; may be given several times.")
@environments_option
@json_option
@click.pass_context
def push(ctx: click.Context, quick: bool, only: tuple[str, ...], environments: Path, as_json: bool) -> None:
    """Measure what an alert costs its sender, ours and other people's, and try what alerts promise."""
    from benchmarks.peers.virtualenvs import Environments
    from benchmarks.push.suite import parts

    _bench(ctx, parts(Environments(folder=environments)), quick=quick, only=only, as_json=as_json)


@bench.command(epilog=example("python -m benchmarks cql --quick", "python -m benchmarks cql --only rows --json"))
@click.option("--quick", is_flag=True, help="Fewer rounds: six minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part of them; may be given several times.")
@json_option
@click.pass_context
def cql(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure rows, pages, widths of a range, mentions and large bursts on Cassandra, started with Java and Maven."""
    from benchmarks.cassandra.suite import PARTS

    _bench(ctx, PARTS, quick=quick, only=only, as_json=as_json, profile="cluster")


@bench.command(epilog=example("python -m benchmarks log --quick", "python -m benchmarks log --json"))
@click.option("--quick", is_flag=True, help="Fewer rounds: half a minute.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure; may be given several times.")
@json_option
@click.pass_context
def log(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure what Kafka costs its clients, ours and others'; it is started with Java and Maven."""
    from benchmarks.kafka.records import PARTS

    _bench(ctx, PARTS, quick=quick, only=only, as_json=as_json, profile="cluster")


@bench.command(
    epilog=example("python -m benchmarks chaos --quick", "python -m benchmarks chaos --only takeover_s --json")
)
@click.option("--quick", is_flag=True, help="Without what takes longest: three nodes, and a topic that is deleted.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure; may be given several times.")
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Another one, other storms and moments."
)
@json_option
@click.pass_context
def chaos(ctx: click.Context, quick: bool, only: tuple[str, ...], seed: int, as_json: bool) -> None:
    """Break the cluster profile on purpose, under load, and check that nothing is lost; needs Java and Maven."""
    from benchmarks.chaos.scenarios import parts, quickly

    temporary = tempfile.TemporaryDirectory(prefix="notifier-cluster-", ignore_cleanup_errors=True)
    with temporary as folder, parts(Path(folder), seed) as scenario_parts:
        chosen = quickly(scenario_parts) if quick and not only else scenario_parts
        _bench(ctx, chosen, quick=quick, only=only, as_json=as_json, profile="cluster", seed=seed)


@bench.command(
    epilog=example(
        "python -m benchmarks inbox --quick",
        "python -m benchmarks inbox --only pages --only latency --json",
        "python -m benchmarks inbox --profile cluster",
    )
)
@click.option("--quick", is_flag=True, help="Fewer and shorter rounds: six minutes.")
@click.option("--only", multiple=True, metavar="PART", help="A part or a figure; may be given several times.")
@click.option(
    "--profile",
    type=click.Choice(["embedded", "cluster"]),
    default="embedded",
    show_default=True,
    help="The cluster profile runs on engines that are started with Java and Maven.",
)
@environments_option
@json_option
@click.pass_context
def inbox(
    ctx: click.Context, *, quick: bool, only: tuple[str, ...], profile: str, environments: Path, as_json: bool
) -> None:
    """Measure what opening the inbox costs: warm, first, deep, unchanged, and with a store or Redis in trouble."""
    from benchmarks.inbox.suite import asks_for_peer, parts
    from benchmarks.peers.virtualenvs import Environments

    temporary = tempfile.TemporaryDirectory(prefix="notifier-inbox-", ignore_cleanup_errors=True)
    pythons = Environments(folder=environments)
    with temporary as folder, parts(Path(folder), profile, pythons, peer=asks_for_peer(only)) as inbox_parts:
        _bench(ctx, inbox_parts, quick=quick, only=only, as_json=as_json, profile=profile)


def _bench(
    ctx: click.Context,
    parts: "Parts",
    *,
    quick: bool,
    only: tuple[str, ...],
    as_json: bool,
    profile: str = "embedded",
    seed: int = 1,
) -> None:
    from benchmarks.fanout.suite import names, run

    known = names(parts)
    for name in only:
        if name not in known:
            raise click.UsageError(f"There is no figure {name!r}; there are {', '.join(known)}.")
    if profile == "cluster":
        _require_engines()
    figures = run(quick=quick, only=only, tell=_progress(), parts=parts)
    _report(ctx, figures, as_json=as_json, profile=profile, seed=seed)


@bench.command(epilog=example("python -m benchmarks peers --quick", "python -m benchmarks peers --json"))
@click.option("--quick", is_flag=True, help="Fewer rounds and smaller samples: under two minutes.")
@environments_option
@json_option
@click.pass_context
def peers(ctx: click.Context, quick: bool, environments: Path, as_json: bool) -> None:
    """Measure other people's ways of reaching the same followers, and ours, in turns."""
    from benchmarks.fanout.suite import run
    from benchmarks.peers.contest import Contest, names
    from benchmarks.peers.virtualenvs import Environments

    contest_ = Contest(pythons=Environments(folder=environments))
    figures = run(quick=quick, only=(), tell=_progress(), parts={"peers": (contest_, names())})
    _report(ctx, figures, as_json=as_json)


def _progress() -> Callable[[str], None]:
    """Tells what happens, and when since now, on standard error."""
    began = time.monotonic()

    def tell(message: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        click.echo(f"{minutes}:{seconds:02} {message}", err=True)

    return tell


def _require_engines() -> None:
    """Before a minute has been spent on failing each figure. Raises Environment."""
    from notifier.devkit.engines.maven import REMEDY, missing

    if lacking := missing():
        raise Environment(f"There is no {' and no '.join(lacking)} here. {REMEDY}")


def _report(
    ctx: click.Context, figures: "Sequence[Figure]", *, as_json: bool, profile: str = "embedded", seed: int = 1
) -> None:
    checks = [Check(**asdict(figure.finding)) for figure in figures]
    report = envelope(profile, seed, checks) | _measured(figures)
    if as_json:
        print_lines([report])
    else:
        print_checks(checks)
    ctx.exit(0 if report["ok"] else 1)


def _measured(figures: "Sequence[Figure]") -> dict[str, object]:
    """By figure: the least, the middle and the most of what was measured."""
    return {
        "ours": {figure.finding.name: asdict(figure.ours) for figure in figures if figure.ours},
        "baseline": {figure.finding.name: asdict(figure.baseline) for figure in figures if figure.baseline},
        "peers": {figure.finding.name: asdict(figure.peers) for figure in figures if figure.peers},
    }


if __name__ == "__main__":
    with stoppable():
        bench(prog_name="python -m benchmarks")
