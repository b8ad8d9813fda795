"""The benches on real engines, without them: what is compared is the same, and counted right."""

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

from benchmarks.cassandra import mentions
from benchmarks.cassandra.bursts import SyntheticBursts, first
from benchmarks.cassandra.history import openings
from benchmarks.cassandra.protocol import CHUNK, HEADER, FrameConnection, batches
from benchmarks.cassandra.suite import PARTS
from benchmarks.cassandra.turns import Turn, cheaper, faster
from benchmarks.cassandra.writers import LIFE, values
from benchmarks.kafka import records
from benchmarks.report import __main__ as made
from notifier.adapters.cassandra.bulk.encoding import PreencodedBatchProtocol, RowBatch, messages
from notifier.consumer_loop import BATCH_SIZE
from notifier.domain.audience.inbox_rows import RANGE_MEMBERS, InboxRows, window_of
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.ports.event_log import Logged
from tests.repo.sources import ROOT

NOW = datetime(2026, 1, 14, 12, tzinfo=UTC)
QUERY_ID = b"q" * 16
VOID, ERROR = 0x08, 0x00


def rows(share: float) -> list[InboxRows]:
    return SyntheticBursts(shards=range(2), share=share).rows(NOW)


def some_messages(share: float) -> list[RowBatch]:
    return [message for one in rows(share) for message in messages(one, LIFE, QUERY_ID)]


def test_the_leanest_writers_frames_are_the_drivers_own_of_version_4() -> None:
    both = [*some_messages(0.05)[:2], *some_messages(0.01)[:2]]
    drivers = [
        PreencodedBatchProtocol.encode_message(
            BatchMessage(BatchType.UNLOGGED, message, ConsistencyLevel.LOCAL_QUORUM),
            stream,
            4,
            compressor=None,
            allow_beta_protocol_version=False,
        )
        for stream, message in enumerate(both)
    ]
    assert batches(both) == [b"".join(drivers)]


@dataclass
class Server:
    """Answers each frame once it has as many as it waits for, in pieces that end anywhere."""

    together: int
    opcode: int = VOID
    most: int = 0
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    def serve(self) -> None:
        peer, _ = self.listener.accept()
        with peer:
            peer.recv(1 << 16)
            peer.sendall(HEADER.pack(0x84, 0, 0, 0x02, 0))
            rest, waiting = b"", 0
            while data := peer.recv(1 << 20):
                rest += data
                while len(rest) >= HEADER.size and len(rest) >= (size := HEADER.size + HEADER.unpack_from(rest)[4]):
                    rest, waiting = rest[size:], waiting + 1
                self.most = max(self.most, waiting)
                if waiting >= self.together:
                    answer = HEADER.pack(0x84, 0, 0, self.opcode, 4) + b"\0\0\0\1"
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

    def start(window: int, together: int, opcode: int = VOID) -> tuple[Server, FrameConnection]:
        one = Server(together, opcode)
        threads.append(Thread(target=one.serve))
        threads[-1].start()
        opened.append(FrameConnection("127.0.0.1", one.listener.getsockname()[1], window))
        one.listener.close()
        return one, opened[-1]

    yield start
    for frames in opened:
        frames.close()
    for thread in threads:
        thread.join()


def test_all_frames_are_answered_when_it_returns_and_never_more_are_on_their_way(
    server: Callable[..., tuple[Server, FrameConnection]],
) -> None:
    """A server that waits for a whole window would wait for ever if there were less."""
    found, frames = server(window=2 * CHUNK, together=2 * CHUNK)
    each = some_messages(0.05)[:1] * (6 * CHUNK)
    frames.send(batches(each), len(each))
    assert found.most == 2 * CHUNK


def test_an_error_of_the_node_is_no_answer(server: Callable[..., tuple[Server, FrameConnection]]) -> None:
    _, frames = server(window=CHUNK, together=1, opcode=ERROR)
    with pytest.raises(ConnectionError, match="The node says"):
        frames.send(batches(some_messages(0.05)[:1]), 1)


@pytest.mark.parametrize("share", [0.001, 0.25])
def test_stock_writes_one_row_for_each_member_of_each_row(share: float) -> None:
    found = rows(share)
    numbers = [value[0] for value in values(found)]
    assert len(numbers) == len(set(numbers)) == sum(one.deliveries for one in found)
    assert numbers == sorted(numbers)
    assert share * 0.8 < len(numbers) / (2 << 17) < share * 1.2


@pytest.mark.parametrize("share", [0.001, 0.25])
def test_first_rows_reach_as_many_members_as_asked_with_the_last_row_whole(share: float) -> None:
    found = rows(share)
    many = found[0].deliveries + 10
    some = first(found, many)
    assert len(some) == 2
    assert some[0] == found[0]
    reached = sum(one.deliveries for one in some)
    assert reached == len(list(values(some)))
    assert many <= reached < many + RANGE_MEMBERS * share * 2


def test_no_two_bursts_write_the_same_row() -> None:
    bursts = SyntheticBursts(shards=range(1), share=0.05)
    assert [bursts.rows(NOW)[0].burst.seq for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("now", [NOW, NOW + timedelta(hours=71, minutes=59)])
def test_history_fills_each_inbox_window_and_nothing_is_to_come(now: datetime) -> None:
    found = list(openings(now, 3, 40))
    assert found[-1] < now
    assert all(before <= after for before, after in pairwise(found))
    assert [window_of(at) for at in found] == [window_of(now) - back for back in (2, 1, 0) for _ in range(40)]


def turn(deliveries: int, seconds: float, processor: float) -> Turn:
    return Turn(rows=deliveries, deliveries=deliveries, seconds=seconds, processor=processor)


def test_speed_is_counted_in_deliveries_however_many_of_them_a_row_stands_for() -> None:
    ours = Turn(rows=1, deliveries=100, seconds=2.0, processor=0.1)
    assert faster("a", [ours], [turn(25, 1.0, 0.1)], 1.0).finding.value == 2.0


def test_ours_is_compared_round_by_round_also_with_who_reaches_fewer() -> None:
    ours, others = [turn(100, 1.0, 0.2), turn(100, 4.0, 0.4)], [turn(10, 1.0, 0.01), turn(10, 1.0, 0.08)]
    speed, thrift = faster("a", ours, others, 6.0), cheaper("b", ours, others, 0.85)
    assert (speed.finding.value, speed.finding.ok) == (6.25, True)
    assert (thrift.finding.value, thrift.finding.ok) == (1.25, True)
    assert speed.finding.detail.startswith("2.50 to 10.00 in 2 rounds")


class Time:
    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> float:
        return self.passed

    def rest(self, seconds: float) -> None:
        self.passed += seconds


def held(takes: float, each: float = 0.0) -> tuple[mentions.HeldRate, list[int]]:
    """A lane whose stage takes so many seconds for a batch, and more for each record."""
    time, sizes = Time(), list[int]()

    def stage(records: Sequence[Logged]) -> None:
        sizes.append(len(records))
        time.rest(takes + each * len(records))

    arrivals = mentions.LaneRecords(subjects=[Subject(Kind.MENTION, UserId("nova"))], lane=Lane.CELEBRITY)
    return mentions.hold(stage, arrivals, 10, time.now, time.rest), sizes


def test_a_lane_that_keeps_up_has_done_all() -> None:
    found, sizes = held(0.1)
    assert found.done == sum(sizes) == 5_000
    assert max(found.halves()) < 0.3


def test_a_lane_that_falls_behind_has_done_less_and_says_how_long_was_waited() -> None:
    found, sizes = held(0.0, 0.004)
    assert found.done < 3_000
    assert max(sizes) == BATCH_SIZE
    early, late = found.halves()
    assert late > 1.5 * early > 0


def test_each_record_of_a_lane_has_its_subjects_partition_and_a_later_offset() -> None:
    subjects = [Subject(Kind.MENTION, UserId(f"star{number}")) for number in range(7)]
    arrivals = mentions.LaneRecords(subjects=subjects, lane=Lane.CELEBRITY)
    found = [*arrivals.batch(20), *arrivals.batch(20)]
    assert len({(one.partition, one.record.key) for one in found}) == 7
    assert [one.offset for one in found] == sorted({one.offset for one in found})


def test_without_java_make_bench_says_what_it_leaves_out(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert made.possible(["fanout", "cql", "log"]) == ["fanout"]
    assert capsys.readouterr().out.startswith("left out: cql, log; its engines need Java 17 and Maven")
    assert made.possible(["fanout"]) == ["fanout"]
    assert capsys.readouterr().out == ""


def test_the_document_says_how_each_figure_is_taken() -> None:
    document = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    brought = [figure for parts in (PARTS, records.PARTS) for _, brings in parts.values() for figure in brings]
    assert len(brought) == len(set(brought))
    assert [figure for figure in brought if f"`{figure.partition('{')[0]}" not in document] == []
