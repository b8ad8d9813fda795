"""The documents as their tests read them: fenced blocks, the commands in them, tables, headings."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.repo.sources import ROOT, documents

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
OURS = re.compile(r"(?:^|[(|;&]|\bdo)\s*((?:notifier|make|python -m benchmarks) [^|;&)\n#>]*)", flags=re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)


@dataclass(frozen=True)
class Page:
    name: str

    @cached_property
    def text(self) -> str:
        return (ROOT / self.name).read_text(encoding="utf-8")

    @property
    def blocks(self) -> list[tuple[str, str]]:
        """Language and content."""
        return FENCE.findall(self.text)

    @property
    def script(self) -> str:
        """What a reader types, from the first block to the last."""
        return "".join(content for language, content in self.blocks if language == "sh")

    @property
    def anchors(self) -> set[str]:
        """As the usual renderers name headings."""
        prose = FENCE.sub("", self.text)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(prose)}

    def table(self, first: str) -> list[list[str]]:
        """The rows of the table whose first heading is this."""
        found = re.search(rf"^\| {first} \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", self.text, flags=re.MULTILINE)
        assert found, f"{self.name} has no table of {first}"
        lines = found[1].splitlines()
        return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def ours(script: str) -> list[str]:
    """Every call of `notifier`, of `make` and of the benchmarks, as it is written."""
    return [" ".join(words.split()) for words in OURS.findall(script)]


def page(path: Path) -> Page:
    return Page(path.relative_to(ROOT).as_posix())


PAGES = [page(path) for path in documents()]
