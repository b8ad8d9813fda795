"""Reads and writes docs/benchmarks.json, which has the last envelope of every benchmark."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PATH = re.compile(r"(?<![\w/])(?:/[\w.+-]+){2,}/?")
"""Path of a file on the machine, as a failure's cause may contain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    command: str
    commit: str
    date: str
    machine: Mapping[str, str]
    envelope: Mapping[str, Any]


def read(path: Path) -> dict[str, Run]:
    if not path.exists():
        return {}
    return {name: Run(**run) for name, run in json.loads(path.read_text(encoding="utf-8")).items()}


def write(path: Path, runs: Mapping[str, Run]) -> None:
    """Write the runs without paths, which would identify the machine."""
    held = json.dumps({name: asdict(runs[name]) for name in sorted(runs)}, ensure_ascii=False, indent=1)
    path.write_text(PATH.sub("…", held) + "\n", encoding="utf-8")
