"""A setting as such: its name, its default, what it must be and what it means, all in one place."""

import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, cast, get_type_hints
from urllib.parse import SplitResult, urlsplit

PREFIX = "NOTIFIER_"


class Hides(StrEnum):
    """What of a value nobody may read."""

    NOTHING = "nothing"
    PASSWORD = "the password of an address"
    ALL = "all of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRule:
    must: str
    """What the value must be: ends the sentence "it must be"."""
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
    """The field of a settings' class."""
    rule = SettingRule(must=must, means=means, holds=holds, hides=hides)
    return field(default=default, repr=hides is Hides.NOTHING, metadata={"rule": rule})


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    path: tuple[str, ...]
    """`("threshold",)`, or `("kafka", "servers")` of a section."""
    kind: Any
    default: Any
    rule: SettingRule

    @property
    def variable(self) -> str:
        return PREFIX + "_".join(self.path).upper()

    @property
    def key(self) -> str:
        """As the file has it."""
        return ".".join(self.path)


def named(tree: type, path: tuple[str, ...] = ()) -> Iterator[Named]:
    """Every setting of the tree, section by section, in the order in which they are written."""
    kinds = get_type_hints(tree)
    for one in fields(tree):
        if is_dataclass(kind := kinds[one.name]):
            yield from named(cast(type, kind), (*path, one.name))
        else:
            assert one.default is not MISSING
            yield Named(path=(*path, one.name), kind=kind, default=one.default, rule=one.metadata["rule"])


def refusal(one: Named, value: object) -> str | None:
    """Why a setting can't have this value, behind the name by which it was given; None when it can."""
    return None if one.rule.holds(value) else wrong(one, value)


def wrong(one: Named, value: object) -> str:
    return f"is {one.rule.shown(value)}; it must be {one.rule.must}."


def plain(value: object) -> str:
    """A value as somebody would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value.total_seconds():g}" if isinstance(value, timedelta) else str(value)


def variable(*path: str) -> str:
    """The environment's name of a setting."""
    return PREFIX + "_".join(path).upper()


def without_password(url: str) -> str:
    """Neither before the host nor among the options."""
    return re.sub(r"(?<=password=)[^&]*", "…", re.sub(r"^([a-z+]*://)?.*@", r"\1…@", url, flags=re.DOTALL))


# Addresses of several hosts, which Python's own splitting refuses where one in brackets isn't the first.

_PLACES = re.compile(r"([^/?#]*//)([^/?#]*)(.*)", re.DOTALL)


def split(url: str) -> SplitResult:
    """As `urlsplit`, whatever the hosts are. Raises ValueError."""
    if (found := _PLACES.fullmatch(url)) is None:
        return urlsplit(url)
    before, hosts, behind = found.groups()
    return urlsplit(f"{before}host{behind}")._replace(netloc=hosts)
