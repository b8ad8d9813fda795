"""The read ports of CLI commands, taken from an in-memory stage."""

from notifier.ports.all_ports import ReadPorts
from tests.support.fakes.activity_member_sets_and_follows import MemoryActivity
from tests.support.fakes.inbox_cache_freshness import MemoryViewerVersionReader
from tests.support.in_memory_system import Stage


def reads_of(stage: Stage) -> ReadPorts:
    return ReadPorts(
        people=stage.state.people,
        preferences=stage.state.preferences,
        timeline=stage.state.timeline,
        burst_changes=stage.state.burst_changes,
        pull=stage.state.pull,
        activity=MemoryActivity(),
        live=stage.state.bus,
        versions=MemoryViewerVersionReader(stage.state.versions),
        clock=stage.state.clock,
        nonces=stage.state.nonces,
    )
