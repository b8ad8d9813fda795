"""`notifier bench`: measures the promises about speed on this machine, ours and the baseline in turns."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from notifier.cli.checks import Check, envelope
from notifier.cli.demo import print_checks
from notifier.cli.options import json_option
from notifier.cli.output import print_lines
from notifier.cli.verbs import Family, example

if TYPE_CHECKING:
    from notifier.testing.bench.rounds import Figure


@click.group(cls=Family, epilog=example("notifier bench fanout --quick"))
def bench() -> None:
    """Measure what is promised about speed; nothing else should run on the machine meanwhile."""


@bench.command(
    epilog=example("notifier bench fanout --quick", "notifier bench fanout --only seal_shard_ms --only planning --json")
)
@click.option("--quick", is_flag=True, help="Fewer rounds: under four minutes.")
@click.option("--only", multiple=True, metavar="NAME", help="A figure or a part of them; may be given several times.")
@json_option
@click.pass_context
def fanout(ctx: click.Context, quick: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Measure how fast a burst reaches its audience, from one mention to 200,000,000 followers."""
    from notifier.testing.bench.fanout import names, run

    for name in only:
        if name not in names():
            raise click.UsageError(f"There is no figure {name!r}; there are {', '.join(names())}.")
    began = time.monotonic()

    def tell(words: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        click.echo(f"{minutes}:{seconds:02} {words}", err=True)

    figures = run(quick=quick, only=only, tell=tell)
    checks = [Check(**asdict(figure.finding)) for figure in figures]
    report = envelope("embedded", 1, checks) | _measured(figures)
    if as_json:
        print_lines([report])
    else:
        print_checks(checks)
    ctx.exit(0 if report["ok"] else 1)


def _measured(figures: "Sequence[Figure]") -> dict[str, object]:
    """By figure: the least, the middle and the most of what was measured. This bench runs against no peer."""
    return {
        "ours": {figure.finding.name: asdict(figure.ours) for figure in figures if figure.ours},
        "baseline": {figure.finding.name: asdict(figure.baseline) for figure in figures if figure.baseline},
        "peers": {},
    }
