"""Command `notifier fixture`: loads generated users and celebrities, by documented formulas."""

import time
from pathlib import Path

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.options import command_line_for, data_option, json_option, settings_for
from notifier.cli.output import print_json, print_sentence, progress


@click.command(
    epilog=example(
        "notifier fixture --followers 1000000 --universe 2000000 --celebrities 12",
        "notifier fixture --followers 200000000 --universe 200000000 --celebrities 1 --seed 1",
    )
)
@click.option(
    "--followers", type=click.IntRange(1), default=1_000_000, show_default=True, help="Followers of the celebrity nova."
)
@click.option(
    "--universe", type=click.IntRange(1), default=None, help="Number of users.  [default: twice the followers]"
)
@click.option(
    "--celebrities",
    type=click.IntRange(1, 10_000),
    default=12,
    show_default=True,
    help="Number of celebrities.",
)
@click.option(
    "--second-followers",
    type=click.IntRange(1),
    default=None,
    help="Followers of the celebrity orion.  [default: a quarter of nova's]",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the generated data.")
@data_option
@json_option
def fixture(
    *,
    followers: int,
    universe: int | None,
    celebrities: int,
    second_followers: int | None,
    seed: int,
    data: Path | None,
    as_json: bool,
) -> None:
    """Load users u0, u1, … and celebrities nova, orion, lyra, … into the data folder.

    Formulas compute the follows, mutes, VIP flag and activity of each user from the number in the user's name
    (docs/fixture.md). So a test can compute what each user must see. A folder that contains other users is refused. A
    notifier may be running on the folder.
    """
    from notifier.cli.data_folder_setup import prepare_data_folder
    from notifier.cli.opened_stores import open_stores
    from notifier.devkit.fixture.world import World
    from notifier.devkit.fixture.world_loader_and_markers import (
        WorldLoader,
        require_no_users,
        steps,
        write_world_marker,
    )

    try:
        world = World(
            universe=universe or 2 * followers,
            followers=followers,
            celebrities=celebrities,
            seed=seed,
            second_followers=second_followers,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    settings = settings_for(data)
    prepare_data_folder(settings.data)
    started = time.monotonic()
    with open_stores(settings) as stores, progress("loading users", steps(world), quiet=as_json) as advance:
        require_no_users(settings.data, world, stores.ports.directory, stores.ports.sets)
        write_world_marker(settings.data, world)
        ports = stores.ports
        WorldLoader.into(ports)(world, advance)
    elapsed = time.monotonic() - started
    if as_json:
        print_json(
            {
                "people": world.universe,
                "celebrities": {name: world.follower_count(index) for name, index in world.celebrity_numbers.items()},
                "seed": seed,
                "seconds": round(elapsed, 3),
            }
        )
    else:
        name = world.names[0]
        print_sentence(
            f"Loaded {world.universe:,} users and {celebrities:,} celebrities in {elapsed:.1f} s into {settings.data}."
        )
        print_sentence(f"{name} has {world.follower_count(0):,} followers. Next: {command_line_for('up', data)}")
