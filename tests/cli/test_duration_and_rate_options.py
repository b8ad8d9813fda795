"""Durations and rates as operators write them."""

from contextlib import suppress
from datetime import timedelta

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.cli.options import DurationParam, RateParam


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15s", timedelta(seconds=15)),
        ("20m", timedelta(minutes=20)),
        ("1.5h", timedelta(minutes=90)),
        ("7d", timedelta(days=7)),
        ("250ms", timedelta(milliseconds=250)),
    ],
)
def test_duration_is_parsed(text: str, expected: timedelta) -> None:
    assert DurationParam().convert(text, None, None) == expected


@pytest.mark.parametrize(("text", "expected"), [("500", 500.0), ("20k", 20_000.0), ("1.5M", 1_500_000.0)])
def test_rate_is_parsed(text: str, expected: float) -> None:
    assert RateParam().convert(text, None, None) == expected


@given(st.text(alphabet="0123456789.smhdkM -", max_size=400))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(click.BadParameter):
        assert DurationParam().convert(text, None, None) >= timedelta(0)
    with suppress(click.BadParameter):
        assert RateParam().convert(text, None, None) >= 0
