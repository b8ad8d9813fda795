"""Generates docs/settings.md from the declared settings."""

from collections.abc import Iterator
from typing import Any

from notifier.config.field import format_value, setting_entries
from notifier.config.settings import Settings

HEAD = """\
# Settings

Every setting is a variable of the environment, or a line of a file of TOML that `NOTIFIER_SETTINGS` names:
`NOTIFIER_PORT=8080` is `port = 8080` there, and `NOTIFIER_KAFKA_SERVERS` is `servers` in the section `[kafka]`. The
environment wins over the file, and `--data`, `--profile`, `--host` and `--port` of a command win over both. What
can't be understood, and what nobody knows, is refused before anything starts, in one sentence with the name and the
value (exit code 3, or 2 for an option). `notifier settings` shows what holds, with a mark where it is not the
default.

This page is written by `notifier settings --markdown`.

| variable | default | must be | meaning |
|---|---|---|---|
"""


def page() -> str:
    return HEAD + "".join(f"{row}\n" for row in _rows())


def _rows() -> Iterator[str]:
    for entry in setting_entries(Settings):
        yield f"| `{entry.variable}` | {_default(entry.default)} | {entry.rule.requirement} | {entry.rule.meaning} |"


def _default(value: Any) -> str:
    if value in (None, ""):
        return "none"
    return f"`{format_value(value)}`"
