"""`notifier flush`: empties the Redis of a running service, to see that nothing is lost by it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from notifier.cli.group import example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_json
from notifier.config import Named, Settings, named, plain
from notifier.domain.errors import CacheUnavailable


@click.command(epilog=example("notifier flush", "notifier flush --data notifier-demo"))
@data_option
def flush(*, data: Path | None) -> None:
    """Empty the Redis that the service started itself. Nothing is lost: tabs read the store until the index is rebuilt.

    A Redis that somebody else runs (NOTIFIER_REDIS_URL) is left alone.
    """
    from notifier.cli.context import require_folder
    from notifier.profiles import choose

    settings = settings_for(data)
    require_folder(settings.data)
    profile = choose(settings)
    try:
        if not profile.empty():
            raise CacheUnavailable("There is no Redis of our own that could be emptied.")
    finally:
        profile.close()
    click.echo("Redis was emptied. Tabs read the store until the index is rebuilt, and lost tasks are queued again.")


# `notifier migrate`: brings a data folder to the schema of this version.

PHASES = ("pre", "post")


@click.command(epilog=example("notifier migrate --data ./notifier-data", "notifier migrate --phase pre"))
@click.option(
    "--phase",
    type=click.Choice(PHASES),
    default=None,
    help="pre: before new code starts, while the old serves; post: once no old code runs.  [default: both]",
)
@data_option
@json_option
def migrate(*, phase: str | None, data: Path | None, as_json: bool) -> None:
    """Create the data folder if it isn't there, and bring the stores to this version's schema and topics.

    `notifier up` does it too. What was written by a newer version is refused and left as it is.
    """
    from notifier.cli.data_folder import prepare
    from notifier.profiles import choose

    settings = settings_for(data)
    prepare(settings.data)
    profile = choose(settings)
    try:
        steps = profile.migrate(phase)
    finally:
        profile.close()
    if as_json:
        print_json({"data": str(settings.data), "steps": steps})
    else:
        click.echo(f"{settings.data} is up to date; steps taken: {steps}.")


# `notifier settings`: what holds here, and the page that explains it.


@click.command(epilog=example("notifier settings", "notifier settings --profile cluster --json"))
@click.option("--markdown", is_flag=True, help="Print docs/settings.md instead.")
@data_option
@json_option
def settings(*, markdown: bool, data: Path | None, as_json: bool) -> None:
    """Show every setting as it holds here; what is not its default has a mark. Passwords stay hidden."""
    if markdown:
        from notifier.config.docs import page

        click.echo(page(), nl=False)
        return
    found = settings_for(data)
    each = [(one, _held(found, one.path)) for one in named(Settings)]
    if as_json:
        print_json({one.key: {"value": _shown(one, value), "default": value == one.default} for one, value in each})
        return
    wide = max(len(one.variable) for one, _ in each)
    for one, value in each:
        mark = " " if value == one.default else "*"
        click.echo(f"{mark} {one.variable:<{wide}}  {_shown(one, value)}")


def _held(found: Settings, path: Sequence[str]) -> Any:
    value: Any = found
    for name in path:
        value = getattr(value, name)
    return value


def _shown(one: Named, value: Any) -> str:
    if value in (None, ""):
        return "none"
    return one.rule.shown(plain(value)).strip("'")
