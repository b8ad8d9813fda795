"""An onlooker: opens tabs while the store is away, and finds out what people are answered meanwhile."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from notifier.domain.ids import UserId
from notifier.testing.finding import Finding, agreement
from notifier.testing.instance import Instance
from notifier.testing.people import Person
from notifier.testing.wire import Answer, Wire

ANSWERED_WITHIN = 5.0
"""Seconds: a tab asks the store up to twice, one after the other, and waits for 2 s each time."""
GONE = "no answer"


@dataclass(slots=True, kw_only=True)
class Onlooker:
    instance: Instance
    token: Callable[[UserId], str]
    people: Sequence[Person]
    killed: bool = False
    """Whether the API is among what is killed: while it comes back there is nobody to answer."""
    answers: list[Answer] = field(default_factory=list)

    def everybody(self) -> None:
        """A look at every tab, which nobody judges: afterwards the service knows what they were shown."""
        for person in self.people:
            self._answer(person)

    def __call__(self) -> None:
        """One look; every time at somebody else's tab."""
        self.answers.append(self._answer(self.people[len(self.answers) % len(self.people)]))

    def _answer(self, person: Person) -> Answer:
        wire = Wire(url=self.instance.url, bearer=self.token(person.user))
        try:
            return wire.get("/v1/inbox")
        finally:
            wire.close()

    def finding(self) -> Finding:
        """Whole from what is known, partial, or a refusal that says when to come again; and never late."""
        codes = [_word(answer) for answer in self.answers]
        longest = max((answer.seconds for answer in self.answers), default=0.0)
        right = ("whole", "partial", "503", *([GONE] if self.killed else ()))
        wrong = [word for word in codes if word not in right]
        if longest > ANSWERED_WITHIN:
            wrong.append(f"one answer took {longest:.1f} s")
        told = ", ".join(f"{codes.count(word)} {word}" for word in sorted(set(codes)))
        detail = "; ".join([*wrong[:3], f"{told}; the last to come took {longest:.1f} s"])
        found = agreement("tabs_in_outage", wrong, n=len(codes))
        return replace(found, detail=detail)


def _word(answer: Answer) -> str:
    if answer.status == 200:
        return "partial" if answer.body["partial"] else "whole"
    return str(answer.status) if answer.status else GONE
