"""The environment as such: what children are given, and what a library takes from nowhere else."""

import os
import sys
from collections.abc import Mapping

from notifier.config.field import PREFIX


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
