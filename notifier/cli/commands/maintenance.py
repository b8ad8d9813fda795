"""Commands `notifier flush`, `notifier migrate` and `notifier settings`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from notifier.cli.group import example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_json
from notifier.config import SettingEntry, Settings, format_value, setting_entries
from notifier.domain.errors import CacheUnavailable


@click.command(epilog=example("notifier flush", "notifier flush --data notifier-demo"))
@data_option
def flush(*, data: Path | None) -> None:
    """Empty the Redis that `notifier up` started. No notification is lost.

    Lost are the counts of frequency caps, and who was active in the last minute. Inboxes read the store until the pull
    index is rebuilt, and lost tasks are queued again. An external Redis (NOTIFIER_REDIS_URL) is left unchanged.
    """
    from notifier.cli.context import require_folder
    from notifier.profiles import choose

    settings = settings_for(data)
    require_folder(settings.data)
    profile = choose(settings)
    try:
        if not profile.flush_redis():
            raise CacheUnavailable("No Redis started by `notifier up` is running.")
    finally:
        profile.close()
    click.echo(
        "Redis was emptied. Inboxes read the store until the pull index is rebuilt, and lost tasks are queued again."
    )


# Command `notifier migrate`.

PHASES = ("pre", "post")


@click.command(epilog=example("notifier migrate --data ./notifier-data", "notifier migrate --phase pre"))
@click.option(
    "--phase",
    type=click.Choice(PHASES),
    default=None,
    help="pre: run it before new code starts; old code may still run. post: run it once no old code runs. Give a phase "
    "if a service is running.  [default: both]",
)
@data_option
@json_option
def migrate(*, phase: str | None, data: Path | None, as_json: bool) -> None:
    """Migrate the stores to the schema and topics of this version.

    Creates the data folder if it doesn't exist. `notifier up` migrates too. Data of a newer version is refused and not
    changed.
    """
    from notifier.cli.data_folder import prepare_data_folder
    from notifier.profiles import choose

    settings = settings_for(data)
    prepare_data_folder(settings.data)
    profile = choose(settings)
    try:
        steps = profile.migrate(phase)
    finally:
        profile.close()
    if as_json:
        print_json({"data": str(settings.data), "steps": steps})
    else:
        click.echo(f"{settings.data} is up to date; steps applied: {steps}.")


# Command `notifier settings`.


@click.command(epilog=example("notifier settings", "notifier settings --profile cluster --json"))
@click.option("--markdown", is_flag=True, help="Print docs/settings.md instead.")
@data_option
@json_option
def settings(*, markdown: bool, data: Path | None, as_json: bool) -> None:
    """Show all settings with their current values. Passwords are hidden.

    A star marks values that differ from the default.
    """
    if markdown:
        from notifier.config.docs import render_page

        click.echo(render_page(), nl=False)
        return
    current = settings_for(data)
    values = [(setting, _value_at(current, setting.path)) for setting in setting_entries(Settings)]
    if as_json:
        print_json(
            {
                setting.key: {"value": _masked_text(setting, value), "default": value == setting.default}
                for setting, value in values
            }
        )
        return
    width = max(len(setting.variable) for setting, _ in values)
    for setting, value in values:
        mark = " " if value == setting.default else "*"
        click.echo(f"{mark} {setting.variable:<{width}}  {_masked_text(setting, value)}")


def _value_at(settings_: Settings, path: Sequence[str]) -> Any:
    value: Any = settings_
    for name in path:
        value = getattr(value, name)
    return value


def _masked_text(setting: SettingEntry, value: Any) -> str:
    if value in (None, ""):
        return "none"
    return setting.rule.masked(format_value(value)).strip("'")
