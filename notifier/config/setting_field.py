"""Declaration of one setting: its name, default, validation rule and meaning."""

import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, cast, get_type_hints
from urllib.parse import SplitResult, urlsplit

VARIABLE_PREFIX = "NOTIFIER_"


class HiddenPart(StrEnum):
    """Part of a value that messages hide."""

    NOTHING = "nothing"
    PASSWORD = "the password of an address"
    ALL = "all of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRule:
    requirement: str
    """Completes the sentence "it must be …" in error messages."""
    meaning: str
    """Text of docs/settings.md about the setting."""
    is_valid: Callable[[Any], bool]
    hidden: HiddenPart

    def masked(self, value: object) -> str:
        """Return the value for a message, without its hidden part."""
        match self.hidden:
            case HiddenPart.ALL:
                return f"{len(str(value))} characters long" if value else "''"
            case HiddenPart.PASSWORD:
                return repr(without_password(str(value)))
            case _:
                return repr(value)


def setting(
    default: Any,
    *,
    requirement: str,
    meaning: str,
    is_valid: Callable[[Any], bool] = lambda _: True,
    hidden: HiddenPart = HiddenPart.NOTHING,
) -> Any:
    rule = SettingRule(requirement=requirement, meaning=meaning, is_valid=is_valid, hidden=hidden)
    return field(default=default, repr=hidden is HiddenPart.NOTHING, metadata={"rule": rule})


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingEntry:
    """One setting: its place in the tree of sections, and its declaration."""

    path: tuple[str, ...]
    """Section names and field name: `("threshold",)` or `("kafka", "servers")`."""
    value_type: Any
    default: Any
    rule: SettingRule

    @property
    def variable(self) -> str:
        return VARIABLE_PREFIX + "_".join(self.path).upper()

    @property
    def key(self) -> str:
        """Dotted key in the settings file."""
        return ".".join(self.path)


def setting_entries(tree: type, path: tuple[str, ...] = ()) -> Iterator[SettingEntry]:
    """Yield every setting of the tree in the order of declaration.

    `path` is the tree's own path, empty for the root.
    """
    types = get_type_hints(tree)
    for declared in fields(tree):
        if is_dataclass(value_type := types[declared.name]):
            yield from setting_entries(cast(type, value_type), (*path, declared.name))
        else:
            assert declared.default is not MISSING
            rule = declared.metadata["rule"]
            yield SettingEntry(path=(*path, declared.name), value_type=value_type, default=declared.default, rule=rule)


def value_problem(entry: SettingEntry, value: object) -> str | None:
    """Return what is wrong with a value, for a message that begins with the setting's name. None if it is valid."""
    return None if entry.rule.is_valid(value) else problem_text(entry, value)


def problem_text(entry: SettingEntry, value: object) -> str:
    return f"is {entry.rule.masked(value)}; it must be {entry.rule.requirement}."


def format_value(value: object) -> str:
    """Format a value as it is written in an environment variable."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value.total_seconds():g}" if isinstance(value, timedelta) else str(value)


def variable(*path: str) -> str:
    """Return the environment variable of a setting."""
    return VARIABLE_PREFIX + "_".join(path).upper()


def without_password(url: str) -> str:
    """Mask the URL's user and password, and a `password` in its query."""
    return re.sub(r"(?<=password=)[^&]*", "…", re.sub(r"^([a-z+]*://)?.*@", r"\1…@", url, flags=re.DOTALL))


# `urlsplit` rejects a URL with several hosts if a host other than the first is in brackets.

_URL_WITH_HOSTS = re.compile(r"([^/?#]*//)([^/?#]*)(.*)", re.DOTALL)


def split_url(url: str) -> SplitResult:
    """Split a URL like `urlsplit`, but allow several hosts. Raises ValueError."""
    if (match := _URL_WITH_HOSTS.fullmatch(url)) is None:
        return urlsplit(url)
    prefix, hosts, suffix = match.groups()
    return urlsplit(f"{prefix}host{suffix}")._replace(netloc=hosts)
