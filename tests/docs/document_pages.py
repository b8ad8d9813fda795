"""Reads the documents: code blocks, commands, tables and headings."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.repo.repository_files import ROOT, documents

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
OUR_COMMANDS = re.compile(
    r"(?:^|[(|;&]|\bdo)\s*((?:notifier|make|python -m benchmarks) [^|;&)\n#>]*)", flags=re.MULTILINE
)
HEADING = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)


@dataclass(frozen=True)
class Page:
    name: str

    @cached_property
    def text(self) -> str:
        return (ROOT / self.name).read_text(encoding="utf-8")

    @property
    def blocks(self) -> list[tuple[str, str]]:
        """Language and content of each code block."""
        return FENCE.findall(self.text)

    @property
    def script(self) -> str:
        """The shell commands of the page, from the first block to the last."""
        return "".join(content for language, content in self.blocks if language == "sh")

    @property
    def anchors(self) -> set[str]:
        """Anchors of the headings, as common renderers name them."""
        prose = FENCE.sub("", self.text)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(prose)}

    def table(self, first: str) -> list[list[str]]:
        """Return the rows of the table whose first column has this heading."""
        match = re.search(rf"^\| {first} \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", self.text, flags=re.MULTILINE)
        assert match, f"{self.name} has no table of {first}"
        lines = match[1].splitlines()
        return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def our_commands(script: str) -> list[str]:
    """Return every call of `notifier`, `make` and the benchmarks, as written."""
    return [" ".join(command.split()) for command in OUR_COMMANDS.findall(script)]


def page(path: Path) -> Page:
    return Page(path.relative_to(ROOT).as_posix())


PAGES = [page(path) for path in documents()]
