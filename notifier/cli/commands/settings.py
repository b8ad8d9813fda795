"""`notifier settings`: what holds here, and the page that explains it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from notifier.cli.group import example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_json
from notifier.config import Named, Settings, named, plain


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
