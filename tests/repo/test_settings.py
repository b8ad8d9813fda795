"""The table of settings says what the code does."""

import re
from dataclasses import fields

from notifier.config import PREFIX, RULES, Settings
from tests.repo.sources import ROOT

ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", flags=re.MULTILINE)


def rows() -> dict[str, tuple[str, str]]:
    """Default and rule by variable."""
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    return {name: (default.strip("`"), rule) for name, default, rule, _ in ROW.findall(text)}


def test_the_table_names_every_setting_in_the_order_of_the_code() -> None:
    assert list(rows()) == [PREFIX + field.name.upper() for field in fields(Settings)]


def test_the_table_s_defaults_are_the_code_s() -> None:
    given = {variable: default for variable, (default, _) in rows().items() if default != "none"}
    assert Settings.read(given) == Settings()
    without = {field.name for field in fields(Settings) if field.default in {None, ""}}
    assert without == {variable.removeprefix(PREFIX).lower() for variable in rows().keys() - given.keys()}


def test_the_table_s_rules_are_the_code_s() -> None:
    assert {variable.removeprefix(PREFIX).lower(): rule for variable, (_, rule) in rows().items()} == {
        name: rule.words for name, rule in RULES.items()
    }
