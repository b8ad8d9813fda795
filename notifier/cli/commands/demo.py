"""Command `notifier demo`: a storm of mentions, shown in a browser or verified without one."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from notifier.cli.command_groups_and_errors import example, program_command
from notifier.cli.data_folder_setup import prepare_data_folder
from notifier.cli.options import DurationParam, FiniteRange, json_option
from notifier.cli.output import Check, envelope, print_lines
from notifier.config import PROFILES
from notifier.domain.errors import FolderNotEmpty

if TYPE_CHECKING:
    from notifier.devkit.check.check_run import CheckPlan
    from notifier.devkit.check.finding_and_quantiles import Finding
    from notifier.devkit.fixture.world import World

FAULT_KINDS = (
    *("kill-worker", "kill-push", "kill-fakes", "kill-pump", "kill-api", "kill-valkey", "flush-valkey"),
    *("stop-worker", "stop-pump"),
)
"""Faults of roles and of Redis, for both profiles."""
CLUSTER_FAULT_KINDS = (
    *("kill-kafka", "kill-cassandra", "stop-kafka", "stop-cassandra", "refuse-cassandra", "store-outage"),
    *("cut-kafka", "cut-cassandra", "cut-valkey", "slow-kafka", "slow-cassandra", "slow-valkey"),
)
PROFILE_HELP = (
    "Storage: SQLite (embedded), or Cassandra and Kafka (cluster). For cluster, the demo starts both and Valkey in the "
    "folder, which needs Java and Maven."
)
COLLAPSE_HELP = (
    "Collapse window in seconds; 0 turns collapsing off for accounts with at most 100,000 followers."
    "  [default: 20; 60 with --headless]"
)
FAULT_LIST = "\n".join(
    (
        "\b\nFaults:",
        *(f"  {kind}" for kind in FAULT_KINDS),
        "",
        "\b\nFaults with --profile cluster:",
        *(f"  {kind}" for kind in CLUSTER_FAULT_KINDS),
    )
)
"""List of the faults, for the end of the help. In the help of an option, click would break names at their hyphens."""
MIN_BURSTS = 20
"""Minimum number of bursts in a headless demo.

It is checked only without --collapse, and with at least the default numbers of mentions and celebrities.
"""


class FaultList(click.ParamType[tuple[str, ...]]):
    """A list of faults, like kill-worker,kill-pump."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        kinds = tuple(dict.fromkeys(kind.strip() for kind in str(value).split(",") if kind.strip()))
        for kind in kinds:
            if kind not in FAULT_KINDS + CLUSTER_FAULT_KINDS:
                self.fail(
                    f"unknown fault {kind!r}; choose from {', '.join(FAULT_KINDS + CLUSTER_FAULT_KINDS)}.", param, ctx
                )
        return kinds


@click.command(
    epilog=f"{FAULT_LIST}\n\n"
    + example(
        "notifier demo",
        "notifier demo --followers 1000000 --port 8090 --no-open --fresh",
        "notifier demo --headless --faults kill-worker,kill-pump --seed 7 --json",
        "notifier demo --headless --followers 200000000 --universe 200000000 --celebrities 1 --mentions 1",
    )
)
@click.option("--headless", is_flag=True, help="Send a storm without a page, then check the results.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=None, help="Port of the page.  [default: 8080, or any free one]"
)
@click.option("--open/--no-open", "opens_browser", default=True, help="Open a browser, if there is a display.")
@click.option("--fresh", is_flag=True, help="Delete the data of an earlier demo from the folder.")
@click.option("--profile", type=click.Choice(PROFILES), default="embedded", show_default=True, help=PROFILE_HELP)
@click.option(
    "--followers",
    type=click.IntRange(1),
    default=None,
    help="Followers of the celebrity nova.  [default: 200,000,000; 1,000,000 with --headless]",
)
@click.option(
    "--universe",
    type=click.IntRange(1),
    default=None,
    help="Number of users.  [default: the number of followers; twice that with --headless]",
)
@click.option(
    "--celebrities",
    type=click.IntRange(1, 10_000),
    default=None,
    help="Number of celebrities.  [default: 2; 12 with --headless]",
)
@click.option(
    "--second-followers",
    type=click.IntRange(1),
    default=None,
    help="Followers of the celebrity orion.  [default: a tenth of nova's; a quarter with --headless]",
)
@click.option(
    "--mentions",
    type=click.IntRange(1),
    default=240,
    show_default=True,
    help="Number of mentions. Only with --headless.",
)
@click.option("--collapse", type=FiniteRange(0, 86400), default=None, help=COLLAPSE_HELP)
@click.option(
    "--threshold",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="Followers from which an account is a celebrity. Only with --headless.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=1,
    show_default=True,
    help="Seed of the users and of the storm.",
)
@click.option(
    "--faults", type=FaultList(), default=(), metavar="LIST", help="Faults to inject, separated by commas; see below."
)
@click.option(
    "--outage", type=DurationParam(), default="20s", show_default=True, help="Duration of a store-outage fault."
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    metavar="DIR",
    help="Data folder.  [default: ./notifier-demo, which is kept; a temporary one with --headless]",
)
@json_option
@click.pass_context
def demo(
    ctx: click.Context,
    *,
    headless: bool,
    port: int | None,
    opens_browser: bool,
    fresh: bool,
    profile: str,
    followers: int | None,
    universe: int | None,
    celebrities: int | None,
    second_followers: int | None,
    mentions: int,
    collapse: float | None,
    threshold: int,
    seed: int,
    faults: tuple[str, ...],
    outage: timedelta,
    keep: Path | None,
    as_json: bool,
) -> None:
    """Show a storm of mentions for 200 million users in a browser.

    With --headless there is no page: the command runs a service on an empty folder and sends it a storm. Afterwards it
    compares stores, inboxes and alerts with the results that formulas predict. --mentions, --threshold, --faults and
    --outage apply only with --headless; --port, --open and --fresh only without it. --json implies --headless.
    """
    from notifier.devkit.fixture.world import World

    headless = headless or as_json
    if profile != "cluster" and (unavailable := [kind for kind in faults if kind in CLUSTER_FAULT_KINDS]):
        raise click.UsageError(f"{unavailable[0]} needs --profile cluster.")
    if ctx.get_parameter_source("outage") is ParameterSource.COMMANDLINE and "store-outage" not in faults:
        raise click.UsageError("--outage needs --faults store-outage.")
    try:
        follower_count = followers or (1_000_000 if headless else 200_000_000)
        user_count = universe or (2 * follower_count if headless else follower_count)
        celebrity_count = celebrities or (12 if headless else 2)
        if second_followers is None and not headless and celebrity_count > 1:
            # By default all users follow the first celebrity. The second has a more typical number of followers.
            second_followers = max(1, follower_count // 10)
        world = World(
            universe=user_count,
            followers=follower_count,
            celebrities=celebrity_count,
            seed=seed,
            second_followers=second_followers,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not headless:
        show_in_browser(
            world, keep=keep, port=port, profile=profile, opens_browser=opens_browser, fresh=fresh, collapse=collapse
        )
        return
    from notifier.devkit.check.check_run import CheckPlan

    expects_min_bursts = mentions >= 240 and world.celebrities >= 12 and collapse is None
    with _empty_folder(keep) as data:
        plan = CheckPlan(
            data=data,
            world=world,
            mentions=mentions,
            threshold=threshold,
            collapse=collapse,
            seed=seed,
            profile=profile,
            faults=faults,
            outage=outage.total_seconds(),
            min_bursts=MIN_BURSTS if expects_min_bursts else 0,
        )
        findings = run_check(plan)
    checks = [Check(**asdict(finding)) for finding in findings]
    report = envelope(profile, seed, checks)
    if as_json:
        print_lines([report])
    else:
        print_checks(checks)
        name = program_command()
        click.echo(
            f"\nNext: {name} fixture, then {name} up, and in another terminal: {name} mention --author ada --of nova"
        )
    ctx.exit(0 if report["ok"] else 1)


def show_in_browser(
    world: "World",
    *,
    keep: Path | None,
    port: int | None,
    profile: str,
    opens_browser: bool,
    fresh: bool,
    collapse: float | None,
) -> None:
    from notifier.cli.commands.demo_browser import COLLAPSE_SECONDS, DEFAULT_FOLDER, BrowserDemo

    data = (keep or DEFAULT_FOLDER).absolute()
    window = COLLAPSE_SECONDS if collapse is None else collapse
    BrowserDemo(
        world=world, data=data, port=port, profile=profile, opens_browser=opens_browser, fresh=fresh, collapse=window
    ).run()


def run_check(plan: "CheckPlan") -> "Sequence[Finding]":
    from notifier.devkit.check.check_run import prepared_run

    with prepared_run(plan, lambda message: click.echo(message, err=True)) as prepared:
        return prepared.run()


def print_checks(checks: Sequence[Check]) -> None:
    for check in checks:
        limit = f" (limit {check.limit:g})" if isinstance(check.limit, int | float) and check.unit != "wrong" else ""
        mark = click.style("ok    ", fg="green") if check.ok else click.style("FAILED", fg="red")
        value = f"{check.value:,}" if isinstance(check.value, int | float) else check.value
        click.echo(f"{mark}  {check.name:<28} {value} {check.unit}{limit}  {check.detail}".rstrip())


@contextmanager
def _empty_folder(keep: Path | None) -> Iterator[Path]:
    """Yield an empty folder: in a used one the check would report the deliveries of the earlier run as wrong."""
    if keep is not None:
        prepare_data_folder(keep)
        if any(keep.iterdir()):
            raise FolderNotEmpty(f"The folder is {keep}.")
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="notifier-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
