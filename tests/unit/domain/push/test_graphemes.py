"""Graphemes: text is never cut within a user-perceived character."""

import pytest

from notifier.domain.push.translations import graphemes, shortened

FAMILY = "👨‍👩‍👧‍👦"
WALES = "🏴\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f"


def utf8(text: str) -> int:
    return len(text.encode())


@pytest.mark.parametrize(
    "parts",
    [
        [],
        ["a", "b", "c"],
        ["中", "文"],
        [FAMILY, "x"],
        ["🇩🇪", "🇫🇷", "a", "🇯"],
        ["👍🏽", "👍"],
        [WALES, "!"],
        ["1️⃣", "2"],
        ["e\u0301", "a"],
        ["क्षि", "न"],
        ["각", "가"],
        ["a", "\r\n", "b"],
        ["\n", "\u0301"],
    ],
    ids=ascii,
)
def test_grapheme_is_one_visible_character(parts: list[str]) -> None:
    assert [*graphemes("".join(parts))] == parts


def test_text_that_fits_is_unchanged() -> None:
    assert shortened("中文", 6, utf8) == "中文"
    assert shortened("", 0, utf8) == ""


@pytest.mark.parametrize(
    ("text", "limit", "shortened_text"),
    [
        ("中文字", 8, "中…"),
        ("中文字", 5, "…"),
        ("中文字", 2, ""),
        (f"a{FAMILY}", 25, "a…"),
        (f"a{FAMILY}bcde", 29, f"a{FAMILY}…"),
        ("a bcdef", 5, "a…"),
    ],
)
def test_long_text_is_cut_after_a_character_and_gets_an_ellipsis(text: str, limit: int, shortened_text: str) -> None:
    assert shortened(text, limit, utf8) == shortened_text
    assert utf8(shortened_text) <= limit
