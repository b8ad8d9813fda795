"""Command `notifier settings`: shows all settings with their current values."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_json
from notifier.config import SettingEntry, Settings, format_value, setting_entries


@click.command(epilog=example("notifier settings", "notifier settings --profile cluster --json"))
@click.option("--markdown", is_flag=True, help="Print docs/settings.md instead.")
@data_option
@json_option
def settings(*, markdown: bool, data: Path | None, as_json: bool) -> None:
    """Show all settings with their current values. Passwords are hidden.

    A star marks values that differ from the default.
    """
    if markdown:
        from notifier.config.settings_page import render_page

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
