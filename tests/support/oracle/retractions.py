"""What was taken back of a tweet, by all that was said of it and of its author, in whatever order."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from tests.support.oracle.person import BEFORE_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Tweet:
    id: str
    author: str
    mentioned: tuple[str, ...]
    protected: bool = False
    text: str = ""
    at: datetime = BEFORE_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """A tweet's deletion or edit; its author's protection or erasure, which is of all that was written until then."""

    what: str
    author: str
    tweet: str = ""
    at: datetime = BEFORE_ALL
    mentioned: tuple[str, ...] = ()
    sequence: int = 0
    text: str = ""

    def of(self, tweet: Tweet) -> bool:
        about = self.tweet == tweet.id if self.what in ("delete", "edit") else tweet.at <= self.at
        return about and self.author == tweet.author


class State(Enum):
    PUBLIC = "public"
    PRIVATE = "private"
    """Its author's followers' alone."""
    GONE = "gone"


def state(tweet: Tweet, account: str, words: Collection[Withdrawn]) -> State:
    """What a tweet's mention of an account has come to."""
    about = [word for word in words if word.of(tweet)]
    kinds = {word.what for word in about}
    edit = last_edit(about)
    if kinds & {"delete", "erase"} or (edit is not None and account not in edit.mentioned):
        return State.GONE
    return State.PRIVATE if tweet.protected or "protect" in kinds else State.PUBLIC


def text(tweet: Tweet, words: Collection[Withdrawn]) -> str:
    edit = last_edit([word for word in words if word.of(tweet)])
    return tweet.text if edit is None else edit.text


def last_edit(words: Collection[Withdrawn]) -> Withdrawn | None:
    edits = [word for word in words if word.what == "edit"]
    return max(edits, key=lambda edit: edit.sequence, default=None)
