"""The system: all ports of a process, and the stages wired from them, room by room in the way of the data."""

from collections.abc import Callable, Sequence

from notifier import topics
from notifier.ports.event_log import Logged
from notifier.wiring.delivery import Telling
from notifier.wiring.read_side import Reads
from notifier.wiring.stages import Counting, Hearing, Minding

__all__ = ["Reads", "System"]


class System(Hearing, Counting, Telling, Minding):
    """All stages of a process, each made when it is asked for."""

    __slots__ = ()

    def stage(self, stream: str, holds: Callable[[], bool]) -> Callable[[Sequence[Logged]], None]:
        """The one that reads a stream; `holds` says whether what was read is still its own."""
        match topics.GROUPS[stream]:
            case "router":
                return self.router()
            case "coordinator":
                return self.coordinator()
            case "registrar":
                return self.registrar(holds)
            case "switchboard":
                return self.switchboard(holds)
            case "attendant":
                return self.attendant()
            case "retractor":
                return self.retractor()
            case _:
                return self.indexer(holds)
