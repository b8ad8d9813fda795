"""Reads settings from arguments, the environment and TOML files; rejects unknown settings."""

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from notifier.config.setting_field import VARIABLE_PREFIX, SettingEntry, problem_text, setting_entries
from notifier.domain.errors import BadSetting

SETTINGS_FILE_VARIABLE = VARIABLE_PREFIX + "SETTINGS"
SERVICES_FILE = Path("services/settings.toml")
"""File in the data folder with the addresses of the engines that `notifier services up` started. The cluster profile
reads this file unless `NOTIFIER_SETTINGS` names another one."""

PROFILE_FILE = Path("run/profile")
"""File in the data folder with the profile of the last `notifier up`."""

PUSH_FILE = Path("run/push.toml")
"""File in the data folder with the push settings of the running `notifier up`."""

T = TypeVar("T")


def read_settings(tree: type[T], environment: Mapping[str, str] | None, arguments: Mapping[str, Any]) -> T:
    """Read the settings into `tree`, a dataclass whose fields are settings and sections. Raises BadSetting.

    The first of these sources that has a setting wins: `arguments`, the environment, the settings file, the push
    settings of the running `up`. The profile of the last `up` overrides that of the settings file.
    """
    variables = os.environ if environment is None else environment
    entries = {entry.variable: entry for entry in setting_entries(tree)}
    values = {
        entries[name].path: _parse_value(entries[name], name, text)
        for name, text in _known_variables(variables, entries)
    }
    values |= {(name,): value for name, value in arguments.items()}
    if ("profile",) not in values and (profile := _last_profile(tree, values)):
        values[("profile",)] = profile
    file = _settings_file(variables, values)
    if file is not None:
        values = {**_read_file(file, tree), **values}
    values = {**_running_push_values(_data_folder(values) / PUSH_FILE, tree), **values}
    settings: T = _build_section(tree, values, ())
    return settings


def _known_variables(environment: Mapping[str, str], entries: Mapping[str, SettingEntry]) -> Iterator[tuple[str, str]]:
    for name, text in environment.items():
        if name in entries:
            yield name, text
        elif name.startswith(VARIABLE_PREFIX) and name != SETTINGS_FILE_VARIABLE:
            raise BadSetting(_unknown_setting_text(name, [*entries, SETTINGS_FILE_VARIABLE]))


def _last_profile(tree: type, values: Mapping[tuple[str, ...], Any]) -> str | None:
    """Return the profile of the last `notifier up`, so that CLI commands read the data of that profile."""
    [profile_setting] = [entry for entry in setting_entries(tree) if entry.key == "profile"]
    try:
        profile = (_data_folder(values) / PROFILE_FILE).read_text()
    except OSError:
        return None
    return profile if profile_setting.rule.is_valid(profile) else None


def _running_push_values(path: Path, tree: type) -> Mapping[tuple[str, ...], Any]:
    with suppress(OSError):  # no permission to read the folder
        if path.exists():
            return _read_file(path, tree)
    return {}


def _data_folder(values: Mapping[tuple[str, ...], Any]) -> Path:
    return Path(values.get(("data",), "./notifier-data"))


def _settings_file(environment: Mapping[str, str], values: Mapping[tuple[str, ...], Any]) -> Path | None:
    if SETTINGS_FILE_VARIABLE in environment:
        return Path(environment[SETTINGS_FILE_VARIABLE])
    services_file = _data_folder(values) / SERVICES_FILE
    return services_file if values.get(("profile",)) == "cluster" and services_file.exists() else None


def _read_file(path: Path, tree: type) -> dict[tuple[str, ...], Any]:
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(f"Can't read the settings file {path}: {error}") from error
    entries = {entry.key: entry for entry in setting_entries(tree)}
    flat = dict(_flatten(content, ()))
    for key in flat:
        if key not in entries:
            raise BadSetting(f"In {path}: {_unknown_setting_text(key, list(entries))}")
    return {entries[key].path: _parse_value(entries[key], f"{key} in {path}", value) for key, value in flat.items()}


def _flatten(content: Mapping[str, Any], prefix: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flatten(value, (*prefix, name))
        else:
            yield ".".join((*prefix, name)), value


def _unknown_setting_text(name: str, valid_names: list[str]) -> str:
    # Compare without the prefix that all names have, because it would make all of them similar.
    prefix = VARIABLE_PREFIX if name.startswith(VARIABLE_PREFIX) else ""
    suggestions = get_close_matches(
        name.removeprefix(prefix), [valid_name.removeprefix(prefix) for valid_name in valid_names], n=1
    )
    hint = f"did you mean {prefix}{suggestions[0]}?" if suggestions else "see docs/settings.md."
    return f"Unknown setting {name}; {hint}"


def _parse_value(entry: SettingEntry, name: str, raw: object) -> Any:
    with suppress(msgspec.ValidationError):  # replaced by BadSetting, whose text operators understand
        value = msgspec.convert(raw, type=entry.value_type, strict=False, dec_hook=_convert)
        if value is not None and entry.rule.is_valid(value):
            return value
    raise BadSetting(f"{name} {problem_text(entry, raw)}")


def _convert(value_type: type, value: object) -> object:
    if value_type is Path:
        if not str(value).strip():
            raise ValueError("no folder")
        return Path(str(value))
    raise TypeError(f"Unsupported type of a setting: {value_type}.")


def _build_section(tree: Any, values: Mapping[tuple[str, ...], Any], path: tuple[str, ...]) -> Any:
    types = get_type_hints(tree)
    leaves = {leaf[-1]: value for leaf, value in values.items() if leaf[:-1] == path}
    sections = {
        name: _build_section(type_, values, (*path, name)) for name, type_ in types.items() if is_dataclass(type_)
    }
    return tree(**leaves, **sections)


# The process environment, for child processes and for libraries that read it.


def environment_with(additional: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with additional variables for a child process."""
    return {**os.environ, **additional}


def environment_without_settings() -> dict[str, str]:
    """Return this process's environment without any variables of this product."""
    return {name: value for name, value in os.environ.items() if not name.startswith(VARIABLE_PREFIX)}


def replace_environment(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def has_display(environment: Mapping[str, str] | None = None) -> bool:
    """Return whether a graphical browser can be opened. On Linux without a display a text browser might start."""
    variables = os.environ if environment is None else environment
    return sys.platform in ("darwin", "win32") or any(variables.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def set_in_environment(name: str, value: str) -> None:
    os.environ[name] = value


def installed_version() -> str:
    try:
        return version("notifier")
    except PackageNotFoundError:
        return "from source"
