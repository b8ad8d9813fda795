"""When each subject changed last, as this process learned: by it a page is proved that another process evaluated."""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.ids import Subject
from notifier.flow.inbox.subject_news import CLOCK_SKEW

MOST_SUBJECTS = 50_000
"""About 18 MB. Of the others it is known only that they changed longer ago."""
LEARNED_WITHIN = timedelta(seconds=1)
"""How late a process learns of a change that Redis was not told of, with room to spare."""


@dataclass(slots=True)
class ChangeTimes:
    """For one event loop, and for one life of the feeds that it follows."""

    since: datetime | None = None
    """Every change that was learned from then on is known. None while nobody follows."""
    first_turn: int = 0
    """As `since`, by the turns of the subject cache."""
    changed: "OrderedDict[Subject, tuple[int, datetime]]" = field(default_factory=OrderedDict)
    """The turn and the time at which the latest change was learned; the oldest first."""

    def begin(self, turn: int, now: datetime) -> None:
        self.changed.clear()
        self.since, self.first_turn = now, turn

    def note(self, subject: Subject, turn: int, now: datetime) -> None:
        self.changed[subject] = turn, now
        self.changed.move_to_end(subject)
        if len(self.changed) > MOST_SUBJECTS:
            _, (self.first_turn, self.since) = self.changed.popitem(last=False)

    def proves(self, subjects: Collection[Subject], moment: datetime) -> bool:
        """Whether another process, which had learned of everything by that moment of its clock, knew the latest state
        of the subjects."""
        latest = moment - CLOCK_SKEW - LEARNED_WITHIN
        if self.since is None or self.since >= latest:
            return False
        return all(self.changed[subject][1] < latest for subject in subjects if subject in self.changed)

    def unchanged(self, subjects: Collection[Subject], turn: int) -> bool:
        """Whether nothing of the subjects has changed since that turn."""
        if not subjects:
            return True
        known = (self.changed[subject][0] <= turn for subject in subjects if subject in self.changed)
        return self.first_turn <= turn and all(known)
