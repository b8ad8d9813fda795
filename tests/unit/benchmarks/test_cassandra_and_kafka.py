"""Cassandra and Kafka benchmarks, without servers: they compare equal work and count it correctly."""

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from threading import Thread

import pytest
from cassandra import ConsistencyLevel
from cassandra.protocol import BatchMessage
from cassandra.query import BatchType

from benchmarks.cassandra import sequencing_coordinator
from benchmarks.cassandra.generated_history_and_bursts import SyntheticBursts, first, openings
from benchmarks.cassandra.lean_cql_client import CHUNK, HEADER, FrameConnection, batches
from benchmarks.cassandra.suite import PARTS
from benchmarks.cassandra.writers import ROW_TTL_SECONDS, values
from benchmarks.cassandra.writers_in_turns import Turn, cheaper, faster
from benchmarks.kafka import log_throughput
from benchmarks.report import __main__ as report
from notifier.adapters.cassandra.bulk.encoding import PreencodedBatchProtocol, RowMessage, divide_into_messages
from notifier.consumer_loop import BATCH_SIZE
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.inbox_rows import RANGE_MEMBERS, InboxRows, window_of
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.ports.event_log_and_dead_letters import Logged
from tests.repo.repository_files import ROOT

NOW = datetime(2026, 1, 14, 12, tzinfo=UTC)
QUERY_ID = b"q" * 16
RESPONSE_V4 = 0x84
ERROR, READY, RESULT = 0x00, 0x02, 0x08
"""Opcodes of responses in the CQL protocol."""


def rows(share: float) -> list[InboxRows]:
    return SyntheticBursts(shards=range(2), share=share).rows(NOW)


def row_messages(share: float) -> list[RowMessage]:
    return [
        message for inbox_rows in rows(share) for message in divide_into_messages(inbox_rows, ROW_TTL_SECONDS, QUERY_ID)
    ]


def test_leanest_writer_sends_same_frames_as_driver() -> None:
    row_batches = [*row_messages(0.05)[:2], *row_messages(0.01)[:2]]
    drivers = [
        PreencodedBatchProtocol.encode_message(
            BatchMessage(BatchType.UNLOGGED, message, ConsistencyLevel.LOCAL_QUORUM),
            stream,
            4,
            compressor=None,
            allow_beta_protocol_version=False,
        )
        for stream, message in enumerate(row_batches)
    ]
    assert batches(row_batches) == [b"".join(drivers)]


@dataclass
class Server:
    """Answers all waiting frames once there are enough of them, in pieces of any length."""

    together: int
    opcode: int = RESULT
    most: int = 0
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    def serve(self) -> None:
        peer, _ = self.listener.accept()
        with peer:
            peer.recv(1 << 16)
            peer.sendall(HEADER.pack(RESPONSE_V4, 0, 0, READY, 0))
            unread, waiting = b"", 0
            while data := peer.recv(1 << 20):
                unread += data
                while len(unread) >= HEADER.size and len(unread) >= (
                    size := HEADER.size + HEADER.unpack_from(unread)[4]
                ):
                    unread, waiting = unread[size:], waiting + 1
                self.most = max(self.most, waiting)
                if waiting >= self.together:
                    answer = HEADER.pack(RESPONSE_V4, 0, 0, self.opcode, 4) + b"\0\0\0\1"
                    self.send(peer, answer * waiting)
                    waiting = 0

    @staticmethod
    def send(peer: socket.socket, answers: bytes) -> None:
        for at in range(0, len(answers), 7):
            peer.sendall(answers[at : at + 7])


@pytest.fixture
def server() -> Iterator[Callable[..., tuple[Server, FrameConnection]]]:
    opened: list[FrameConnection] = []
    threads: list[Thread] = []

    def start(window: int, together: int, opcode: int = RESULT) -> tuple[Server, FrameConnection]:
        created = Server(together, opcode)
        threads.append(Thread(target=created.serve))
        threads[-1].start()
        opened.append(FrameConnection("127.0.0.1", created.listener.getsockname()[1], window))
        created.listener.close()
        return created, opened[-1]

    yield start
    for frames in opened:
        frames.close()
    for thread in threads:
        thread.join()


def test_send_keeps_one_window_in_flight_and_waits_for_all_answers(
    server: Callable[..., tuple[Server, FrameConnection]],
) -> None:
    """The server answers only a full window, so the test would hang if fewer frames were in flight."""
    peer, frames = server(window=2 * CHUNK, together=2 * CHUNK)
    row_batches = row_messages(0.05)[:1] * (6 * CHUNK)
    frames.send(batches(row_batches), len(row_batches))
    assert peer.most == 2 * CHUNK


def test_node_error_fails_the_send(server: Callable[..., tuple[Server, FrameConnection]]) -> None:
    _, frames = server(window=CHUNK, together=1, opcode=ERROR)
    with pytest.raises(ConnectionError, match="the node returned an error"):
        frames.send(batches(row_messages(0.05)[:1]), 1)


@pytest.mark.parametrize("share", [0.001, 0.25])
def test_stock_writer_writes_one_row_per_delivery(share: float) -> None:
    bursts = rows(share)
    numbers = [value[0] for value in values(bursts)]
    assert len(numbers) == len(set(numbers)) == sum(burst.delivery_count for burst in bursts)
    assert numbers == sorted(numbers)
    assert share * 0.8 < len(numbers) / (2 * SHARD_MEMBERS) < share * 1.2


@pytest.mark.parametrize("share", [0.001, 0.25])
def test_first_rows_reach_requested_members_and_keep_last_row_whole(share: float) -> None:
    bursts = rows(share)
    wanted = bursts[0].delivery_count + 10
    selected = first(bursts, wanted)
    assert len(selected) == 2
    assert selected[0] == bursts[0]
    reached = sum(burst.delivery_count for burst in selected)
    assert reached == len(list(values(selected)))
    assert wanted <= reached < wanted + RANGE_MEMBERS * share * 2


def test_each_burst_has_its_own_number() -> None:
    bursts = SyntheticBursts(shards=range(1), share=0.05)
    assert [bursts.rows(NOW)[0].burst.seq for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("now", [NOW, NOW + timedelta(hours=71, minutes=59)])
def test_history_fills_each_inbox_window_before_now(now: datetime) -> None:
    times = list(openings(now, 3, 40))
    assert times[-1] < now
    assert all(before <= after for before, after in pairwise(times))
    assert [window_of(at) for at in times] == [window_of(now) - back for back in (2, 1, 0) for _ in range(40)]


def turn(deliveries: int, seconds: float, processor: float) -> Turn:
    return Turn(rows=deliveries, deliveries=deliveries, seconds=seconds, processor=processor)


def test_speed_counts_deliveries_not_rows() -> None:
    ours = Turn(rows=1, deliveries=100, seconds=2.0, processor=0.1)
    assert faster("a", [ours], [turn(25, 1.0, 0.1)], 1.0).finding.value == 2.0


def test_comparison_is_per_delivery_and_round() -> None:
    ours, baseline = [turn(100, 1.0, 0.2), turn(100, 4.0, 0.4)], [turn(10, 1.0, 0.01), turn(10, 1.0, 0.08)]
    speed, thrift = faster("a", ours, baseline, 6.0), cheaper("b", ours, baseline, 0.85)
    assert (speed.finding.value, speed.finding.ok) == (6.25, True)
    assert (thrift.finding.value, thrift.finding.ok) == (1.25, True)
    assert speed.finding.detail.startswith("2.50 to 10.00 in 2 rounds")


class ManualTime:
    """A clock that advances only while the program sleeps."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds


def held_lane(takes: float, per_record: float = 0.0) -> tuple[sequencing_coordinator.HeldRate, list[int]]:
    """Run a lane whose stage takes `takes` seconds per batch and `per_record` more per record."""
    time, sizes = ManualTime(), list[int]()

    def stage(records: Sequence[Logged]) -> None:
        sizes.append(len(records))
        time.sleep(takes + per_record * len(records))

    arrivals = sequencing_coordinator.LaneRecords(subjects=[Subject(Kind.MENTION, UserId("nova"))], lane=Lane.CELEBRITY)
    return sequencing_coordinator.hold(stage, arrivals, 10, time.now, time.sleep), sizes


def test_lane_that_keeps_up_finishes_all_records() -> None:
    lane, sizes = held_lane(0.1)
    assert lane.done == sum(sizes) == 5_000
    assert max(lane.halves()) < 0.3


def test_slow_lane_finishes_fewer_records_and_reports_waits() -> None:
    lane, sizes = held_lane(0.0, 0.004)
    assert lane.done < 3_000
    assert max(sizes) == BATCH_SIZE
    early, late = lane.halves()
    assert late > 1.5 * early > 0


def test_lane_records_have_partition_by_subject_and_rising_offsets() -> None:
    subjects = [Subject(Kind.MENTION, UserId(f"star{number}")) for number in range(7)]
    arrivals = sequencing_coordinator.LaneRecords(subjects=subjects, lane=Lane.CELEBRITY)
    logged = [*arrivals.batch(20), *arrivals.batch(20)]
    assert len({(entry.partition, entry.record.key) for entry in logged}) == 7
    assert [entry.offset for entry in logged] == sorted({entry.offset for entry in logged})


def test_make_bench_lists_parts_skipped_without_java(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert report.possible(["fanout", "cql", "log"]) == ["fanout"]
    assert capsys.readouterr().out.startswith("skipped cql, log: its engines need Java 17 and Maven")
    assert report.possible(["fanout"]) == ["fanout"]
    assert capsys.readouterr().out == ""


def test_document_describes_every_figure() -> None:
    document = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    names = [figure for parts in (PARTS, log_throughput.PARTS) for _, brings in parts.values() for figure in brings]
    assert len(names) == len(set(names))
    assert [figure for figure in names if f"`{figure.partition('{')[0]}" not in document] == []
