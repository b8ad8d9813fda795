"""The read ports of CLI commands, taken from an in-memory stage."""

from notifier.ports.all_ports import ReadPorts
from tests.support.fakes.audience import MemoryActivity
from tests.support.fakes.inbox_versions import MemoryInboxVersions
from tests.support.in_memory_system import Stage


def reads_of(stage: Stage) -> ReadPorts:
    return ReadPorts(
        people=stage.ground.people,
        preferences=stage.ground.preferences,
        timeline=stage.ground.timeline,
        burst_changes=stage.ground.burst_changes,
        pull=stage.ground.pull,
        activity=MemoryActivity(),
        live=stage.ground.bus,
        versions=MemoryInboxVersions(stage.ground.versions),
        clock=stage.ground.clock,
        nonces=stage.ground.nonces,
    )
