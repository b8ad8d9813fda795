"""Shared options and parameter types of the commands, and how they become settings."""

import re
import shlex
from collections.abc import Callable
from datetime import timedelta
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import click

from notifier.cli.command_groups_and_errors import program_command
from notifier.config import PROFILES, Settings, setting_entries, value_problem
from notifier.domain.ids import UserId

F = TypeVar("F", bound=Callable[..., Any])

_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6}

_PROFILE_KEY = "notifier.profile"
"""Key in click's `ctx.meta` under which --profile is stored."""

MAX_DURATION = timedelta(days=36_500)
"""The current time plus this duration still fits into a datetime."""


class DurationParam(click.ParamType[timedelta]):
    """A duration like 15s, 20m, 2h or 7d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", value)
        if not match:
            self.fail(f"invalid duration {value!r}; examples: 15s, 20m, 2h.", param, ctx)
        seconds = float(match[1]) * _SECONDS_PER_UNIT[match[2]]
        if seconds > MAX_DURATION.total_seconds():
            self.fail(f"{value!r} is longer than a hundred years.", param, ctx)
        return timedelta(seconds=seconds)


class AccountParam(click.ParamType[UserId]):
    """The id of an account. A leading @ isn't part of the id: `@@bob` is the account `@bob`."""

    name = "account"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> UserId:
        if value == "@":
            self.fail("an account is missing after @.", param, ctx)
        return UserId(value.removeprefix("@"))


class RateParam(click.ParamType[float]):
    """A rate in deliveries per second, like 500, 20k or 1.5M."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([km]?)", value.lower())
        if not match:
            self.fail(f"invalid rate {value!r}; examples: 500, 20k, 1.5M deliveries per second.", param, ctx)
        rate = float(match[1]) * _RATE_FACTORS[match[2]]
        if not isfinite(rate):
            self.fail(f"{value!r} is too large.", param, ctx)
        return rate


class FiniteRange(click.FloatRange):
    """A finite number in a range. FloatRange alone accepts `nan`, and `inf` if a range has no upper limit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class Folder(click.Path):
    """A folder whose name isn't empty: an empty name would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip():
            self.fail(f"{value!r} is empty; name a folder.", param, ctx)
        return super().convert(value, param, ctx)


def data_option(command: F) -> F:
    folder = Folder(path_type=Path, file_okay=False)
    help_text = "Data folder.  [default: NOTIFIER_DATA, or ./notifier-data]"
    return click.option("--data", type=folder, default=None, metavar="DIR", help=help_text)(_profile_option(command))


def _profile_option(command: F) -> F:
    """Add --profile. The command does not get it as an argument: `settings_for` reads it from the context."""
    text = (
        "Storage: SQLite (embedded), or Cassandra and Kafka (cluster).  "
        "[default: NOTIFIER_PROFILE, or that of the last `up` on this data folder, or embedded]"
    )
    return click.option(
        "--profile",
        type=click.Choice(PROFILES),
        default=None,
        expose_value=False,
        help=text,
        callback=_store_profile,
    )(command)


def _store_profile(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_PROFILE_KEY] = value


def command_line_for(command: str, data: Path | None) -> str:
    """Return a command line of `notifier` for this data folder, which users can copy."""
    return f"{program_command()} {command}" + (f" --data {shlex.quote(str(data))}" if data else "")


host_option = click.option("--host", default=None, help="Address to listen on.  [default: NOTIFIER_HOST, or 127.0.0.1]")
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    help="Port to listen on; 0 takes any free port.  [default: NOTIFIER_PORT, or 8080]",
)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def settings_for(data: Path | None, **options: Any) -> Settings:
    """Read the settings. An option that is not None overrides the environment and the settings file."""
    context = click.get_current_context(silent=True)
    profile = context.meta.get(_PROFILE_KEY) if context else None
    values = {name: value for name, value in {"data": data, "profile": profile, **options}.items() if value is not None}
    entries = {setting.key: setting for setting in setting_entries(Settings)}
    for name, value in values.items():
        if problem := value_problem(entries[name], value):
            raise click.UsageError(f"--{name} {problem}")
    return Settings.read(**values)
