"""Reads the files of this repository: paths, syntax trees and imports."""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("notifier", "workers")
CODE = (*PRODUCT, "examples", "tests", "benchmarks")


@dataclass(frozen=True, kw_only=True)
class Module:
    """A Python file, parsed on first use."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def imports(self) -> Iterator[str]:
        """Yield the full names of all imports in the file, `from a import b` as `a.b`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def names_used(self) -> Iterator[str]:
        """Yield the dotted names used in the file, as written, and its imports."""
        yield from self.imports()
        yield from (ast.unparse(node) for node in ast.walk(self.tree) if isinstance(node, ast.Attribute))


def modules(*folders: str) -> tuple[Module, ...]:
    """Return every Python file below the folders, sorted by path."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple(map(_module, paths))


@cache
def _module(path: Path) -> Module:
    return Module(path=path.relative_to(ROOT).as_posix(), text=path.read_text(encoding="utf-8"))


@cache
def documents() -> tuple[Path, ...]:
    """Return the Markdown files that are written for people."""
    return tuple(sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")]))


@cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
