"""The longer statements, each in a file of its own under queries/, and the one parameter that has a list in it."""

import json
from collections.abc import Iterable
from pathlib import Path

from notifier.domain.ids import BurstKey

_QUERIES = Path(__file__).parent / "queries"


def statement(name: str) -> str:
    return (_QUERIES / f"{name}.sql").read_text()


def wanted(keys: Iterable[BurstKey]) -> str:
    """The keys as one parameter, however many they are."""
    return json.dumps([(str(key.subject), key.seq) for key in keys])
