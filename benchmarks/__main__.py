"""`python -m benchmarks NAME`: measure the promised speed, against a baseline in the same rounds."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from notifier.__main__ import stoppable
from notifier.cli.command_groups_and_errors import ErrorReportingGroup, example
from notifier.cli.commands.demo import print_checks
from notifier.cli.options import json_option
from notifier.cli.output import Check, envelope, print_lines
from notifier.domain.errors import UnusableEnvironment

if TYPE_CHECKING:
    from benchmarks.costs_and_figures import Figure
    from benchmarks.fanout.suite import Parts


environments_option = click.option(
    "--environments",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/peers"),
    show_default=True,
    metavar="DIR",
    help="Folder for the peers. Missing ones are installed from hashed pins, which needs a package registry.",
)


@click.group(
    cls=ErrorReportingGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("python -m benchmarks fanout --quick"),
)
def bench() -> None:
    """Measure the promised speed. Nothing else should run on the machine meanwhile."""


@bench.command(
    epilog=example(
        "python -m benchmarks fanout --quick",
        "python -m benchmarks fanout --only snapshot_shard_ms --only planning --json",
    )
)
@click.option("--quick", is_flag=True, help="Fewer rounds: under four minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part. May be repeated.")
@json_option
@click.pass_context
def fanout(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure how fast a burst reaches its audience, from one mention to 200,000,000 followers."""
    from benchmarks.fanout.suite import PARTS

    _bench(ctx, PARTS, quick=quick, only=only, as_json=as_json)


@bench.command(
    epilog=example("python -m benchmarks density --quick", "python -m benchmarks density --only density_gain --json")
)
@click.option("--quick", is_flag=True, help="Fewer rounds with fewer users: two minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part. May be repeated.")
@environments_option
@json_option
@click.pass_context
def density(ctx: click.Context, quick: bool, only: tuple[str, ...], environments: Path, as_json: bool) -> None:
    """Measure how fast bursts reach few or many users of a range, against other designs in turns."""
    from benchmarks.fanout.delivery_by_density import DensityBench, names
    from benchmarks.peers.virtualenvs import Environments

    parts: Parts = {"density": (DensityBench(pythons=Environments(folder=environments)), names())}
    _bench(ctx, parts, quick=quick, only=only, as_json=as_json)


@bench.command(
    epilog=example("python -m benchmarks audience --quick", "python -m benchmarks audience --only universe --json")
)
@click.option("--quick", is_flag=True, help="Fewer and smaller rounds: under two minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part. May be repeated.")
@click.option(
    "--profile",
    type=click.Choice(["embedded", "cluster"]),
    default="embedded",
    show_default=True,
    help="The cluster profile measures only the parts that use Cassandra. It needs Java and Maven.",
)
@json_option
@click.pass_context
def audience(ctx: click.Context, quick: bool, only: tuple[str, ...], profile: str, as_json: bool) -> None:
    """Measure the work on audiences: imports, universes, activity, and alternative designs."""
    from benchmarks.audience.suite import OF_CLUSTER, PARTS

    parts = OF_CLUSTER if profile == "cluster" else PARTS
    _bench(ctx, parts, quick=quick, only=only, as_json=as_json, profile=profile)


@bench.command(epilog=example("python -m benchmarks live --quick", "python -m benchmarks live --json"))
@click.option("--quick", is_flag=True, help="Fewer rounds: half a minute.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure. May be repeated.")
@json_option
@click.pass_context
def live(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure how soon live updates arrive: on one stream, and on 1,000 streams of one API process."""
    from benchmarks.live_latency import PARTS

    _bench(ctx, PARTS, quick=quick, only=only, as_json=as_json)


@bench.command(
    epilog=example("python -m benchmarks startup --quick", "python -m benchmarks startup --only up_restart_s --json")
)
@click.option("--quick", is_flag=True, help="Fewer rounds: two minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part. May be repeated.")
@json_option
@click.pass_context
def startup(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure the start of `notifier up` with our fork server, with multiprocessing's, and without one."""
    from benchmarks.startup.start_and_restart_costs import PARTS

    _bench(ctx, PARTS, quick=quick, only=only, as_json=as_json)


@bench.command(
    epilog=example("python -m benchmarks page --quick", "python -m benchmarks page --only demo_ready_s --json")
)
@click.option("--quick", is_flag=True, help="Fewer rounds: three minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part. May be repeated.")
@json_option
@click.pass_context
def page(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure the demo's page as a visitor sees it. All figures but its start need Chromium and its driver."""
    from benchmarks.demo_page import PARTS

    _bench(ctx, PARTS, quick=quick, only=only, as_json=as_json)


@bench.command(epilog=example("python -m benchmarks push --quick", "python -m benchmarks push --only promises --json"))
@click.option("--quick", is_flag=True, help="Fewer and smaller rounds: six minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part. May be repeated.")
@environments_option
@json_option
@click.pass_context
def push(ctx: click.Context, quick: bool, only: tuple[str, ...], environments: Path, as_json: bool) -> None:
    """Measure the cost of sending an alert, against other libraries, and check the promises of alerts."""
    from benchmarks.peers.virtualenvs import Environments
    from benchmarks.push.suite import parts

    _bench(ctx, parts(Environments(folder=environments)), quick=quick, only=only, as_json=as_json)


@bench.command(epilog=example("python -m benchmarks cql --quick", "python -m benchmarks cql --only rows --json"))
@click.option("--quick", is_flag=True, help="Fewer rounds: six minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part. May be repeated.")
@json_option
@click.pass_context
def cql(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure rows, pages, range widths, mentions and large bursts on Cassandra. Needs Java and Maven."""
    from benchmarks.cassandra.suite import PARTS

    _bench(ctx, PARTS, quick=quick, only=only, as_json=as_json, profile="cluster")


@bench.command(epilog=example("python -m benchmarks log --quick", "python -m benchmarks log --json"))
@click.option("--quick", is_flag=True, help="Fewer rounds: half a minute.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure. May be repeated.")
@json_option
@click.pass_context
def log(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure the cost of Kafka for our client and for another one. Needs Java and Maven."""
    from benchmarks.kafka.log_throughput import PARTS

    _bench(ctx, PARTS, quick=quick, only=only, as_json=as_json, profile="cluster")


@bench.command(
    epilog=example("python -m benchmarks chaos --quick", "python -m benchmarks chaos --only takeover_s --json")
)
@click.option("--quick", is_flag=True, help="Leave out the longest scenarios: three nodes, and a deleted topic.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure. May be repeated.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Seed of the storms and of the times of faults.",
)
@json_option
@click.pass_context
def chaos(ctx: click.Context, quick: bool, only: tuple[str, ...], seed: int, as_json: bool) -> None:
    """Break the cluster profile under load, and check that nothing is lost. Needs Java and Maven."""
    from benchmarks.chaos.scenario_runner import parts, without_slow

    temporary = tempfile.TemporaryDirectory(prefix="notifier-cluster-", ignore_cleanup_errors=True)
    with temporary as folder, parts(Path(folder), seed) as scenario_parts:
        chosen = without_slow(scenario_parts) if quick and not only else scenario_parts
        _bench(ctx, chosen, quick=quick, only=only, as_json=as_json, profile="cluster", seed=seed)


@bench.command(
    epilog=example(
        "python -m benchmarks inbox --quick",
        "python -m benchmarks inbox --only pages --only latency --json",
        "python -m benchmarks inbox --profile cluster",
    )
)
@click.option("--quick", is_flag=True, help="Fewer and shorter rounds: six minutes.")
@click.option("--only", multiple=True, metavar="PART", help="A figure or a part. May be repeated.")
@click.option(
    "--profile",
    type=click.Choice(["embedded", "cluster"]),
    default="embedded",
    show_default=True,
    help="The cluster profile starts engines of its own. It needs Java and Maven.",
)
@environments_option
@json_option
@click.pass_context
def inbox(
    ctx: click.Context, *, quick: bool, only: tuple[str, ...], profile: str, environments: Path, as_json: bool
) -> None:
    """Measure inbox opens: warm, first, deep, unchanged, and with a store or Redis in trouble."""
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
            raise click.UsageError(f"unknown figure {name!r}; choose from {', '.join(known)}")
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
    """Measure how fast other designs and ours reach the same followers, in turns."""
    from benchmarks.fanout.suite import run
    from benchmarks.peers.delivery_comparison import Contest, names
    from benchmarks.peers.virtualenvs import Environments

    contest_ = Contest(pythons=Environments(folder=environments))
    figures = run(quick=quick, only=(), tell=_progress(), parts={"peers": (contest_, names())})
    _report(ctx, figures, as_json=as_json)


def _progress() -> Callable[[str], None]:
    """Return a function that prints progress on standard error, with the time since this call."""
    began = time.monotonic()

    def tell(message: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        click.echo(f"{minutes}:{seconds:02} {message}", err=True)

    return tell


def _require_engines() -> None:
    """Check for the engines before time is spent on figures that would all fail. Raises UnusableEnvironment."""
    from notifier.devkit.engines.maven import REMEDY, missing_tools

    if lacking := missing_tools():
        raise UnusableEnvironment(f"{' and '.join(lacking)} not found. {REMEDY}")


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
    """Return the minimum, median and maximum of the measurements, by figure."""
    return {
        "ours": {figure.finding.name: asdict(figure.ours) for figure in figures if figure.ours},
        "baseline": {figure.finding.name: asdict(figure.baseline) for figure in figures if figure.baseline},
        "peers": {figure.finding.name: asdict(figure.peers) for figure in figures if figure.peers},
    }


if __name__ == "__main__":
    with stoppable():
        bench(prog_name="python -m benchmarks")
