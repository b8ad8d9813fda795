"""What the verbs read, of a stage."""

from notifier.testing.memory.activity import MemoryActivity
from notifier.testing.memory.viewer_versions import MemoryInboxVersions
from notifier.wiring.system import Reads
from tests.flow.stage import Stage


def reads_of(stage: Stage) -> Reads:
    return Reads(
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
