"""The reachable: whoever has a device that may be sent to now; the others stay out of windows until a line is back.

Providers are one line, but each push service has a breaker of its own, and a window holds browsers of all of them. Who
was noted as on the way, and then held back, would be told of each burst singly; who is in no window is told of all that
came meanwhile as one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from notifier.domain.ids import Member
from notifier.flow.breakers import Breakers, line_of
from notifier.flow.calls import Call, Part


@dataclass(slots=True, kw_only=True)
class Reachable:
    """Of one batch."""

    breakers: Breakers
    shut: set[str] = field(default_factory=set)
    """Lines for which somebody was left out."""
    _rooms: dict[str, int | None] = field(default_factory=dict)

    def __call__(self, parts: Sequence[Part]) -> Sequence[Part]:
        if not self.breakers.lines:  # nobody is in trouble: nearly always
            return parts
        kept = [part.without(self._left_out(part)) for part in parts]
        return [part for part in kept if not part.empty]

    def _left_out(self, part: Part) -> set[Member]:
        """Nobody's devices are parted: a line that is shut keeps back what is for it by itself."""
        out = set[Member]()
        for member, own in groupby(part.calls, key=lambda call: call.tried.member):
            if not self._lets(list(own)):
                out.add(member)
        return out

    def _lets(self, own: Sequence[Call]) -> bool:
        lines = [line_of(call.device) for call in own]
        roomy = [line for line in lines if self._room(line) != 0]
        for line in roomy:
            if (room := self._room(line)) is not None:
                self._rooms[line] = max(0, room - 1)
        if not roomy:
            self.shut.update(lines)
        return bool(roomy)

    def _room(self, line: str) -> int | None:
        if line not in self._rooms:
            self._rooms[line] = self.breakers.room(line)
        return self._rooms[line]
