"""Declaration of one setting: its name, default, validation rule and meaning."""

import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, cast, get_type_hints
from urllib.parse import SplitResult, urlsplit

PREFIX = "NOTIFIER_"


class Hides(StrEnum):
    """Part of a value that is never printed."""

    NOTHING = "nothing"
    PASSWORD = "the password of an address"
    ALL = "all of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRule:
    must: str
    """Completes the sentence "it must be …" in error messages."""
    means: str
    holds: Callable[[Any], bool]
    hides: Hides

    def shown(self, value: object) -> str:
        match self.hides:
            case Hides.ALL:
                return f"{len(str(value))} characters long" if value else "''"
            case Hides.PASSWORD:
                return repr(without_password(str(value)))
            case _:
                return repr(value)


def setting(
    default: Any, *, must: str, means: str, holds: Callable[[Any], bool] = lambda _: True, hides: Hides = Hides.NOTHING
) -> Any:
    """Declare a field of a settings class."""
    rule = SettingRule(must=must, means=means, holds=holds, hides=hides)
    return field(default=default, repr=hides is Hides.NOTHING, metadata={"rule": rule})


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    path: tuple[str, ...]
    """Section names and field name: `("threshold",)` or `("kafka", "servers")`."""
    kind: Any
    default: Any
    rule: SettingRule

    @property
    def variable(self) -> str:
        return PREFIX + "_".join(self.path).upper()

    @property
    def key(self) -> str:
        """Dotted key in the settings file."""
        return ".".join(self.path)


def named(tree: type, path: tuple[str, ...] = ()) -> Iterator[Named]:
    """Yield every setting of the tree, section by section, in the order of declaration."""
    kinds = get_type_hints(tree)
    for item in fields(tree):
        if is_dataclass(kind := kinds[item.name]):
            yield from named(cast(type, kind), (*path, item.name))
        else:
            assert item.default is not MISSING
            yield Named(path=(*path, item.name), kind=kind, default=item.default, rule=item.metadata["rule"])


def refusal(one: Named, value: object) -> str | None:
    """Return why the setting cannot have this value, as a sentence to append to its name. None if it can."""
    return None if one.rule.holds(value) else wrong(one, value)


def wrong(one: Named, value: object) -> str:
    return f"is {one.rule.shown(value)}; it must be {one.rule.must}."


def plain(value: object) -> str:
    """Format a value as in a settings file."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value.total_seconds():g}" if isinstance(value, timedelta) else str(value)


def variable(*path: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + "_".join(path).upper()


def without_password(url: str) -> str:
    """Mask the credentials before the host and a `password` option in the query."""
    return re.sub(r"(?<=password=)[^&]*", "…", re.sub(r"^([a-z+]*://)?.*@", r"\1…@", url, flags=re.DOTALL))


# URLs with several hosts. `urlsplit` rejects them if a host in brackets is not the first.

_PLACES = re.compile(r"([^/?#]*//)([^/?#]*)(.*)", re.DOTALL)


def split(url: str) -> SplitResult:
    """Split a URL like `urlsplit`, but allow several hosts. Raises ValueError."""
    if (match := _PLACES.fullmatch(url)) is None:
        return urlsplit(url)
    prefix, hosts, suffix = match.groups()
    return urlsplit(f"{prefix}host{suffix}")._replace(netloc=hosts)
