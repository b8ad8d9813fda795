"""The file that docs/benchmarks.md is written from: the last envelope of every bench, with where it was measured."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PATH = re.compile(r"(?<![\w/])(?:/[\w.+-]+){2,}/?")
"""Of a file on the machine; a cause that a detail tells may name one."""


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
    """Without paths: whose machine it was is nobody's business."""
    held = json.dumps({name: asdict(runs[name]) for name in sorted(runs)}, ensure_ascii=False, indent=1)
    path.write_text(PATH.sub("…", held) + "\n", encoding="utf-8")
