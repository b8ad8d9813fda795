"""docs/settings.md is generated from the code."""

from notifier.config import setting_entries
from notifier.config.settings import Settings
from notifier.config.settings_page import render_page
from tests.repo.repository_files import ROOT


def test_settings_page_equals_the_generated_one() -> None:
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == render_page(), "generate it again: notifier settings --markdown > docs/settings.md"


def test_settings_page_has_one_table_row_per_setting() -> None:
    rows = [line for line in render_page().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [setting.variable for setting in setting_entries(Settings)]
    # An unescaped bar in a text would add a column.
    assert {row.count("|") for row in rows} == {5}
