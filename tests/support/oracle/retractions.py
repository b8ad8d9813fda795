"""State of a tweet after all its retractions, in any order."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from tests.support.oracle.user_state import BEFORE_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Tweet:
    id: str
    author: str
    mentioned: tuple[str, ...]
    protected: bool = False
    text: str = ""
    at: datetime = BEFORE_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class RetractionUpdate:
    """Deletion or edit of a tweet, or protection or erasure of its author.

    Protection and erasure apply to everything that the author wrote until then.
    """

    kind: str
    author: str
    tweet: str = ""
    at: datetime = BEFORE_ALL
    mentioned: tuple[str, ...] = ()
    sequence: int = 0
    text: str = ""

    def applies_to(self, tweet: Tweet) -> bool:
        matches = self.tweet == tweet.id if self.kind in ("delete", "edit") else tweet.at <= self.at
        return matches and self.author == tweet.author


class State(Enum):
    PUBLIC = "public"
    PRIVATE = "private"
    """Visible to the followers of its author alone."""
    GONE = "gone"


def state(tweet: Tweet, account: str, retractions: Collection[RetractionUpdate]) -> State:
    """Return the state of a tweet's mention of an account."""
    applied = [retraction for retraction in retractions if retraction.applies_to(tweet)]
    kinds = {retraction.kind for retraction in applied}
    edit = last_edit(applied)
    if kinds & {"delete", "erase"} or (edit is not None and account not in edit.mentioned):
        return State.GONE
    return State.PRIVATE if tweet.protected or "protect" in kinds else State.PUBLIC


def text(tweet: Tweet, retractions: Collection[RetractionUpdate]) -> str:
    edit = last_edit([retraction for retraction in retractions if retraction.applies_to(tweet)])
    return tweet.text if edit is None else edit.text


def last_edit(retractions: Collection[RetractionUpdate]) -> RetractionUpdate | None:
    edits = [retraction for retraction in retractions if retraction.kind == "edit"]
    return max(edits, key=lambda edit: edit.sequence, default=None)
