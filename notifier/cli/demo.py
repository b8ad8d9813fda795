"""`notifier demo`: celebrities are mentioned in a storm; it is watched in the terminal, and checked from outside."""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from notifier.cli.checks import Check, envelope
from notifier.cli.options import json_option
from notifier.cli.output import print_lines
from notifier.cli.verbs import example

if TYPE_CHECKING:
    from notifier.testing.finding import Finding
    from notifier.testing.trial import Script

KINDS = ("kill-worker", "kill-pump", "kill-api", "kill-valkey", "flush-valkey", "stop-worker")
LEAST_BURSTS = 20
"""Of the demo as it is by default."""


class Kinds(click.ParamType[tuple[str, ...]]):
    """Written kill-worker,kill-pump."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        kinds = tuple(dict.fromkeys(kind.strip() for kind in str(value).split(",") if kind.strip()))
        for kind in kinds:
            if kind not in KINDS:
                self.fail(f"{kind!r} is no fault; there are {', '.join(KINDS)}.", param, ctx)
        return kinds


@click.command(
    epilog=example(
        "notifier demo",
        "notifier demo --headless --faults kill-worker,kill-pump --seed 7 --json",
        "notifier demo --headless --followers 200000000 --universe 200000000 --celebrities 1 --mentions 1",
    )
)
@click.option("--headless", is_flag=True, help="Say what was checked, and show nothing else.")
@click.option("--profile", default="embedded", show_default=True, help="Which technologies.")
@click.option(
    "--followers", type=click.IntRange(1), default=1_000_000, show_default=True, help="Of the celebrity nova."
)
@click.option("--universe", type=click.IntRange(1), default=None, help="People in all.  [default: twice the followers]")
@click.option("--celebrities", type=click.IntRange(1), default=12, show_default=True, help="How many.")
@click.option("--mentions", type=click.IntRange(1), default=240, show_default=True, help="How many.")
@click.option("--collapse", type=click.FloatRange(0), default=None, help="Seconds; 0 is off.  [default: by policy, 60]")
@click.option("--threshold", type=click.IntRange(1), default=1_000_000, show_default=True, help="Of a celebrity.")
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=1, show_default=True, help="Another one, another storm."
)
@click.option("--faults", type=Kinds(), default=(), metavar="LIST", help=f"Of {', '.join(KINDS)}; with commas.")
@click.option(
    "--keep", type=click.Path(path_type=Path, file_okay=False), default=None, metavar="DIR", help="Leave it there."
)
@json_option
@click.pass_context
def demo(
    ctx: click.Context,
    *,
    headless: bool,
    profile: str,
    followers: int,
    universe: int | None,
    celebrities: int,
    mentions: int,
    collapse: float | None,
    threshold: int,
    seed: int,
    faults: tuple[str, ...],
    keep: Path | None,
    as_json: bool,
) -> None:
    """Watch a storm of mentions being absorbed, and check from outside that every person got what the formulas say.

    It starts a real service on a folder of its own, which is thrown away unless --keep names one.
    """
    from notifier.testing.trial import Script
    from notifier.testing.world import World

    try:
        world = World(universe=universe or 2 * followers, followers=followers, celebrities=celebrities, seed=seed)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    usual = mentions >= 240 and celebrities >= 12 and collapse is None
    with _folder(keep) as data:
        script = Script(
            data=data,
            world=world,
            mentions=mentions,
            threshold=threshold,
            collapse=collapse,
            seed=seed,
            profile=profile,
            faults=faults,
            least_bursts=LEAST_BURSTS if usual else 0,
        )
        found = run(script, shown=not headless and not as_json)
    checks = [Check(**asdict(finding)) for finding in found]
    report = envelope(profile, seed, checks)
    if as_json:
        print_lines([report])
    else:
        print_checks(checks)
        click.echo("\nNext: notifier fixture, then notifier up, and elsewhere: notifier mention --author ada --of nova")
    ctx.exit(0 if report["ok"] else 1)


def run(script: "Script", *, shown: bool) -> "Sequence[Finding]":
    from notifier.testing.trial import trial

    if shown and sys.stdout.isatty():
        from notifier.cli.storm import watched

        return watched(script)
    with trial(script, lambda words: click.echo(words, err=True)) as prepared:
        return prepared.run()


def print_checks(checks: Sequence[Check]) -> None:
    for check in checks:
        limit = f" (limit {check.limit:g})" if isinstance(check.limit, int | float) and check.unit != "wrong" else ""
        mark = click.style("ok    ", fg="green") if check.ok else click.style("FAILED", fg="red")
        value = f"{check.value:,}" if isinstance(check.value, int | float) else check.value
        click.echo(f"{mark}  {check.name:<28} {value} {check.unit}{limit}  {check.detail}".rstrip())


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="notifier-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
