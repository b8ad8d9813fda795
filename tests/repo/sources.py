"""The files of this repository as its tests read them: paths, syntax trees, imports."""

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
    """One Python file, parsed once, if anybody asks for that."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def imports(self) -> Iterator[str]:
        """Full names of what is imported anywhere in the file, `from a import b` as `a.b`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def names_used(self) -> Iterator[str]:
        """Dotted names read anywhere in the file, as written, and what is imported."""
        yield from self.imports()
        yield from (ast.unparse(node) for node in ast.walk(self.tree) if isinstance(node, ast.Attribute))


def modules(*folders: str) -> tuple[Module, ...]:
    """Every Python file below these folders of the repository, in the order of their paths."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple(map(_module, paths))


@cache
def _module(path: Path) -> Module:
    return Module(path=path.relative_to(ROOT).as_posix(), text=path.read_text(encoding="utf-8"))


@cache
def documents() -> tuple[Path, ...]:
    """The Markdown files that people read."""
    return tuple(sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")]))


@cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
