"""Where settings come from: the environment, and one file of TOML behind it; what nobody knows is refused."""

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

from notifier.config.field import PREFIX, Named, named, wrong
from notifier.domain.errors import BadSetting

FILE = PREFIX + "SETTINGS"
"""Names the file."""
OF_SERVICES = Path("services/settings.toml")
"""In the data folder: where the engines are that `notifier services up` started. The cluster profile finds them there
unless another file is named."""

RUNNING = Path("run/profile")
"""In the data folder: which profile `notifier up` runs on it."""

OF_PUSH = Path("run/push.toml")
"""In the data folder: how the `notifier up` that runs on it sends alerts, for its roles and what is typed beside it."""

T = TypeVar("T")


def read(tree: type[T], environment: Mapping[str, str] | None, given: Mapping[str, Any]) -> T:
    """Of two that say something the environment wins over the file, and what is given over both."""
    found = os.environ if environment is None else environment
    known = {one.variable: one for one in named(tree)}
    said = {known[name].path: _value(known[name], name, text) for name, text in _ours(found, known)}
    said |= {(name,): value for name, value in given.items()}
    if ("profile",) not in said and (profile := _running(tree, said)):
        said[("profile",)] = profile
    file = _file(found, said)
    if file is not None:
        said = {**_from_file(file, tree), **said}
    said = {**_of_push(_folder(said) / OF_PUSH, tree), **said}
    grown: T = _grown(tree, said, ())
    return grown


def _ours(environment: Mapping[str, str], known: Mapping[str, Named]) -> Iterator[tuple[str, str]]:
    for name, text in environment.items():
        if name in known:
            yield name, text
        elif name.startswith(PREFIX) and name != FILE:
            raise BadSetting(_unknown(name, [*known, FILE]))


def _running(tree: type, said: Mapping[tuple[str, ...], Any]) -> str | None:
    """The profile of the `notifier up` that runs, or ran last, on the data: what is typed beside it means the same."""
    [of_profile] = [one for one in named(tree) if one.key == "profile"]
    try:
        found = (_folder(said) / RUNNING).read_text()
    except OSError:
        return None
    return found if of_profile.rule.holds(found) else None


def _of_push(path: Path, tree: type) -> Mapping[tuple[str, ...], Any]:
    with suppress(OSError):  # a folder that is none of ours to look into
        if path.exists():
            return _from_file(path, tree)
    return {}


def _folder(said: Mapping[tuple[str, ...], Any]) -> Path:
    return Path(said.get(("data",), "./notifier-data"))


def _file(environment: Mapping[str, str], said: Mapping[tuple[str, ...], Any]) -> Path | None:
    if FILE in environment:
        return Path(environment[FILE])
    of_services = _folder(said) / OF_SERVICES
    return of_services if said.get(("profile",)) == "cluster" and of_services.exists() else None


def _from_file(path: Path, tree: type) -> dict[tuple[str, ...], Any]:
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(f"The file of settings {path} can't be read: {error}") from error
    known = {one.key: one for one in named(tree)}
    flat = dict(_flat(content, ()))
    for key in flat:
        if key not in known:
            raise BadSetting(f"In {path}: {_unknown(key, list(known))}")
    return {known[key].path: _value(known[key], f"{key} in {path}", value) for key, value in flat.items()}


def _flat(content: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, (*above, name))
        else:
            yield ".".join((*above, name)), value


def _unknown(name: str, known: list[str]) -> str:
    # By what is behind the prefix: that is alike in all of them, and far from anything all the same.
    before = PREFIX if name.startswith(PREFIX) else ""
    near = get_close_matches(name.removeprefix(before), [one.removeprefix(before) for one in known], n=1)
    hint = f"did you mean {before}{near[0]}?" if near else "docs/settings.md has them all."
    return f"There is no setting {name}; {hint}"


def _value(one: Named, name: str, given: object) -> Any:
    with suppress(msgspec.ValidationError):  # its words are for programmers
        value = msgspec.convert(given, type=one.kind, strict=False, dec_hook=_convert)
        if value is not None and one.rule.holds(value):
            return value
    raise BadSetting(f"{name} {wrong(one, given)}")


def _convert(kind: type, value: object) -> object:
    if kind is Path:
        if not str(value).strip():
            raise ValueError("no folder")
        return Path(str(value))
    raise TypeError(f"No setting has the type {kind}.")


def _grown(tree: Any, said: Mapping[tuple[str, ...], Any], path: tuple[str, ...]) -> Any:
    """The tree and its sections, from what was said of their leaves."""
    kinds = get_type_hints(tree)
    values = {at[-1]: value for at, value in said.items() if at[:-1] == path}
    sections = {name: _grown(kind, said, (*path, name)) for name, kind in kinds.items() if is_dataclass(kind)}
    return tree(**values, **sections)


# The environment as such: what children are given, and what a library takes from nowhere else.


def environment_with(more: Mapping[str, str]) -> dict[str, str]:
    """This process's environment and what a child of it has to know besides."""
    return {**os.environ, **more}


def environment_without_settings() -> dict[str, str]:
    """This process's environment as it is for somebody who has set nothing of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


def replace_environment(environment: Mapping[str, str]) -> None:
    """This process's, as if it had been started with that one."""
    os.environ.clear()
    os.environ.update(environment)


def has_display(environment: Mapping[str, str] | None = None) -> bool:
    """Whether a browser that is opened could be seen; without one, Linux might start one in this terminal."""
    found = os.environ if environment is None else environment
    return sys.platform in ("darwin", "win32") or any(found.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def set_in_environment(name: str, value: str) -> None:
    """For a library that takes a setting from nowhere else, and for children that are to have it too."""
    os.environ[name] = value


# Which version of the software this is.


def installed_version() -> str:
    try:
        return version("notifier")
    except PackageNotFoundError:
        return "from source"
