"""The page of the settings is the one that the code writes."""

from notifier.config import named
from notifier.config.docs import page
from notifier.config.settings import Settings
from tests.repo.sources import ROOT


def test_the_page_is_as_the_code_writes_it() -> None:
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == page(), "write it anew: notifier settings --markdown > docs/settings.md"


def test_every_line_of_the_page_is_one_row_of_its_table() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [one.variable for one in named(Settings)]
    # A bar within a text would be a column of its own.
    assert {row.count("|") for row in rows} == {5}
