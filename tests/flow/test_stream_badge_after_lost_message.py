"""The badge of an open stream is correct after the live bus lost a retraction."""

from notifier.domain.upstream.validation import DELETED_TYPE
from tests.cli.in_memory_read_ports import reads_of
from tests.flow.two_api_processes import KIM
from tests.properties.stream_updated_pages import LiveProcess
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync


def test_stream_badge_drops_a_retraction_lost_by_the_bus() -> None:
    stage = Stage()
    stage.mention("nova")
    live = LiveProcess(reads_of(stage), stage.state.bus, stage.state.bursts)
    live.open(KIM, [])
    assert len(live.unread(KIM)) == 1
    stage.send_event(DELETED_TYPE, tweet="t1", author="ada")
    live.lose_connection()
    run_sync(live.hub.refresh_outdated())
    assert live.unread(KIM) == set()
