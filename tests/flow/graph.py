"""An indexer with ports in memory and a log of one partition, and what is said to it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.bitmap import from_offsets, members
from notifier.domain.audience.tiers import SetKind
from notifier.domain.bursts.mention import EventId
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.upstream.graph_changes import Deed, GraphChange, GraphRecord, Rebuild, shard_key
from notifier.domain.users.account_preferences import OF_OVERALLS, OverallWord
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, OF_WANTS, Volume, Want, Wish
from notifier.domain.users.user_blocks import PartingChange
from notifier.flow.imports.importer import Import
from notifier.flow.inbox.preferences import overall_record
from notifier.flow.indexing.bitmaps import Bitmaps
from notifier.flow.indexing.graph_indexer import Indexer
from notifier.metrics import Metrics
from notifier.ports.audience import ShardBlob
from notifier.ports.event_log import Logged, Record
from notifier.ports.imports import ImportBatch
from tests.support.fakes.audience import MemoryFollows, MemoryMemberSets
from tests.support.fakes.clock import START
from tests.support.fakes.coordination import MemoryEpochs
from tests.support.fakes.directory import MemoryDirectory
from tests.support.fakes.imports import MemoryEdges
from tests.support.fakes.people import MemoryPeople
from tests.support.fakes.user_preferences import MemoryOveralls, MemoryPartings, MemoryWants

Row = TypeVar("Row")

NOVA, LYRA = UserId("nova"), UserId("lyra")
MUTED, UNMUTED = Wish(muted_until=NEVER), Wish(muted_until=ALWAYS)
OFF, FIRST = Wish(volume=Volume.OFF), Wish(volume=Volume.FIRST)


@dataclass
class Graph:
    """Ports in memory, and a log of one partition."""

    directory: MemoryDirectory = field(default_factory=MemoryDirectory)
    epochs: MemoryEpochs = field(default_factory=MemoryEpochs)
    sets: MemoryMemberSets = field(init=False)
    people: MemoryPeople = field(init=False)
    follows: MemoryFollows = field(init=False)
    wants: MemoryWants = field(init=False)
    metrics: Metrics = field(default_factory=Metrics)
    records: list[Logged] = field(default_factory=list)
    said: dict[tuple[str, UserId], Want] = field(default_factory=dict)
    others: bool = False
    """Have the partition by now."""

    def __post_init__(self) -> None:
        self.sets = MemoryMemberSets(self.directory)
        self.people = people = MemoryPeople(self.directory)
        self.follows, self.wants, self.overalls = MemoryFollows(people), MemoryWants(people), MemoryOveralls(people)
        self.partings = MemoryPartings(people)

    def indexer(self, **ports: Any) -> Indexer:
        rows: dict[str, Any] = {
            "follows": self.follows,
            "wants": self.wants,
            "overalls": self.overalls,
            "sets": self.sets,
        }
        bitmaps = Bitmaps(**{name: ports.get(name, port) for name, port in rows.items()}, metrics=self.metrics)
        others = {"directory": self.directory, "partings": self.partings, "epochs": self.epochs}
        given: dict[str, Any] = {name: ports.get(name, port) for name, port in others.items()}
        return Indexer(bitmaps=bitmaps, **given, holds=lambda: not self.others)

    def say(self, follower: str, deed: Deed = Deed.FOLLOW, *, of: UserId = NOVA, sequence: int = 0) -> Logged:
        change = GraphChange(
            id=EventId("graph", str(len(self.records))),
            follower=UserId(follower),
            followed=of,
            deed=deed,
            sequence=sequence or len(self.records) + 1,
            at=START,
        )
        return self._logged(of, GraphRecord(change=change))

    def part(self, blocker: str, blocked: str, *, blocks: bool = True, sequence: int = 0) -> Logged:
        change = PartingChange(
            id=EventId("graph", str(len(self.records))),
            blocker=UserId(blocker),
            blocked=UserId(blocked),
            blocks=blocks,
            sequence=sequence or len(self.records) + 1,
            at=START,
        )
        return self._logged(change.blocker, GraphRecord(parting=change))

    def rebuild(self, *shards: int, of: UserId = NOVA) -> Logged:
        return self._logged(of, GraphRecord(rebuild=Rebuild(followed=of, shards=shards)))

    def want(self, who: str, wish: Wish, *, of: UserId = NOVA, at: int = 0) -> Logged:
        """Said after so many seconds, by who knows what was said here before."""
        member = self.directory.number([UserId(who)])[UserId(who)]
        before = self.said.get((who, of), Want(subject=Subject(Kind.MENTION, of), member=member, at=ALWAYS))
        word = wish.heard(before, START + timedelta(seconds=at or len(self.records) + 1))
        word = replace(word, at=START + timedelta(seconds=at)) if at else word
        self.said[who, of] = before.after(word)
        return self._logged(of, GraphRecord(word=word))

    def arrange(self, who: str, *, at: int = 0, **said: Any) -> Logged:
        """Of everything."""
        member = self.directory.number([UserId(who)])[UserId(who)]
        word = OverallWord(member=member, at=START + timedelta(seconds=at or len(self.records) + 1), **said)
        return self._kept(overall_record(word))

    def anew(self, shard: int) -> Logged:
        """What everybody wants of everything."""
        return self._kept(Record(stream=topics.FOLLOWS, key=shard_key(shard), value=pack(GraphRecord(everybody=shard))))

    def _kept(self, record: Record) -> Logged:
        self.records.append(Logged(partition="follows/0", offset=len(self.records), record=record))
        return self.records[-1]

    def _logged(self, of: UserId, said: GraphRecord) -> Logged:
        return self._kept(Record(stream=topics.FOLLOWS, key=of, value=pack(said)))

    def counted(self, metric: str) -> float:
        return self.metrics.registry.get_sample_value(f"notifier_bitmaps_{metric}_total") or 0

    def followers(self, of: UserId = NOVA) -> set[str]:
        """By the bitmaps, which have to agree with the head."""
        subject = Subject(Kind.MENTION, of)
        head, found = self.sets.head(subject), set[Member]()
        for shard, total in enumerate(head.counts):
            bits = self.sets.read(SetKind.FOLLOWERS, subject, [shard]).get(shard, from_offsets([]))
            found |= {*members(bits, shard)}
            assert total == len(members(bits, shard))
        assert head.total == len(found)
        return set(self.directory.users(found).values())

    def wanting(self, of: UserId = NOVA) -> dict[str, set[str]]:
        """Who is in which of the other bitmaps."""
        subject, found = Subject(Kind.MENTION, of), dict[str, set[str]]()
        for kind in OF_WANTS:
            bitmaps = self.sets.read(kind, subject, range(4))
            some = [member for shard, bits in bitmaps.items() for member in members(bits, shard)]
            if some:
                found[str(kind)] = set(self.directory.users(some).values())
        return found

    def arranged(self) -> dict[str, set[str]]:
        """Who is in which of everybody's bitmaps."""
        found = dict[str, set[str]]()
        for kind in OF_OVERALLS:
            bitmaps = self.sets.read(kind, None, range(4))
            some = [member for shard, bits in bitmaps.items() for member in members(bits, shard)]
            if some:
                found[str(kind)] = set(self.directory.users(some).values())
        return found

    def parted(self) -> dict[str, set[str]]:
        """With whom a block parts each."""
        viewers = self.people.known().values()
        return {viewer.user: set(viewer.blocked) for viewer in viewers if viewer.blocked}

    def unplanned(self, of: UserId = NOVA) -> list[int]:
        """Shards with followers that the head doesn't name: nobody would deliver to them."""
        subject = Subject(Kind.MENTION, of)
        counts = dict(enumerate(self.sets.head(subject).counts))
        bitmaps = self.sets.read(SetKind.FOLLOWERS, subject, range(4))
        return [shard for shard, bits in bitmaps.items() if bits.any() and not counts.get(shard)]


@dataclass(frozen=True)
class Spoilt:
    """Sets of which one was changed on the disk."""

    port: MemoryMemberSets

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def read(self, *_: object) -> Any:
        raise Poison("A bit is another.")


@dataclass
class Fuse:
    """So many calls of any port go through; then every one fails, half of them after their effect."""

    calls: int

    def on(self, port: object) -> Any:
        fuse = self

        class Fused:
            def __getattr__(self, name: str) -> Callable[..., Any]:
                def call(*given: Any, **named: Any) -> Any:
                    fuse.calls -= 1
                    if fuse.calls < -1:
                        raise StoreUnavailable
                    answer = getattr(port, name)(*given, **named)
                    if fuse.calls < 0:
                        raise StoreUnavailable
                    return answer

                return call

        return Fused()


class AsleepBeforeWrite:
    """Member sets of an indexer that sleeps between reading bitmaps and writing them, while others go on."""

    def __init__(self, sets: MemoryMemberSets, meanwhile: Callable[[], None]) -> None:
        self.sets, self.meanwhile = sets, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sets, name)

    def put(self, blobs: Iterable[ShardBlob], *given: Any) -> None:
        self.meanwhile()
        self.sets.put(blobs, *given)


def import_with_crashes(
    importer: Callable[[Fuse], Import[ImportBatch[Row]]],
    batches: Sequence[ImportBatch[Row]],
    edges: MemoryEdges,
    cuts: list[int],
) -> None:
    """Import all batches, with a crash after each of so many calls; each run goes on where the last one stopped."""
    for calls in (*cuts, 10_000):
        cut = importer(Fuse(calls))
        try:
            cut.read([batch for batch in batches if batch.read > edges.read()])
            cut.write()
            break
        except StoreUnavailable:
            continue
