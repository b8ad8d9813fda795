"""Measures an import of follows against the leanest writer of the same tables.

The rows are in random order, as in an export sorted by follower. Every second user follows each of two accounts.
"""

import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from benchmarks.costs_and_figures import Cost, Figure, Spread, cost, ratio, unjudged
from benchmarks.fanout.suite import Parts
from notifier import topics
from notifier.adapters.imports.account_follow_preference_layouts import FOLLOWS
from notifier.adapters.imports.sources_and_spilled_edges import SpilledEdges, form_of, open_source
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.codec.messagepack import to_ms
from notifier.config import Settings
from notifier.consumer_loop import build_stream_processor
from notifier.devkit.check.finding_and_quantiles import at_least
from notifier.domain.audience.bitmap import (
    BLOCK_MEMBERS,
    SHARD_MEMBERS,
    WHOLE_BLOCK_SLOT,
    encode,
    from_offsets,
    shard_of,
)
from notifier.domain.audience.import_keys_and_follow_rows import (
    HALF_KEY_BITS,
    FollowRowChunk,
    ImportKeys,
    cut_follow_rows,
    edge_keys,
)
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.subject_preferences import ALWAYS
from notifier.flow.imports.follower_import import FollowerImport
from notifier.flow.imports.import_runner_accounts_preferences import Import
from notifier.metrics import Metrics
from notifier.profiles import choose
from notifier.wiring.shared_parts import System, build_system

# The leanest import of the same tables: everything in memory and one transaction, so a SIGKILL loses all of it.

_USER = "INSERT INTO users (user, member, account, deleted) VALUES (?, ?, x'', 0)"
_MEMBER = "INSERT INTO members (member, user) VALUES (?, ?)"
_FOLLOW = "INSERT INTO follows (block, slot, subject, visible_from, members) VALUES (?, ?, ?, ?, ?)"
_SET = "INSERT INTO member_sets (owner, shard, kind, blob, fencing_token) VALUES (?, ?, ?, ?, 1)"
_FOLLOWER_COUNTS = "INSERT INTO follower_counts (subject, total, by_shard, fencing_token) VALUES (?, ?, ?, 1)"


def lean_import(files: Files, file: Path) -> None:
    """Import a file of names into an empty store."""
    table = pq.read_table(file, columns=["followed", "follower"])
    followed, followers = (table.column(name).to_pylist() for name in ("followed", "follower"))
    members = {UserId(user): Member(n) for n, user in enumerate(dict.fromkeys((*followers, *followed)))}
    names = {member: user for user, member in members.items()}
    keys = edge_keys((members[user] for user in followed), (members[user] for user in followers))
    with files.core.write() as c:
        c.executemany(_USER, members.items())
        c.executemany(_MEMBER, names.items())
        for crowds in cut_follow_rows(keys):
            c.executemany(_FOLLOW, _follows(crowds, names))
        for subject, shards in _shards(keys, names).items():
            c.executemany(
                _SET, [(subject, s, str(SetKind.FOLLOWERS), encode(from_offsets(o))) for s, o in shards.items()]
            )
            counts = np.zeros(max(shards) + 1, dtype=np.uint32)
            counts[[*shards]] = [len(offsets) for offsets in shards.values()]
            c.execute(_FOLLOWER_COUNTS, (subject, int(counts.sum()), counts.tobytes()))


def _follows(crowds: FollowRowChunk, names: Mapping[Member, UserId]) -> list[tuple[object, ...]]:
    since = to_ms(ALWAYS)
    shared = [(block, WHOLE_BLOCK_SLOT, _subject(names[of]), since, bits) for of, block, bits in crowds.block_rows]
    own = [(m // BLOCK_MEMBERS, m % BLOCK_MEMBERS, _subject(names[of]), since, None) for of, m in crowds.member_rows]
    return [*shared, *own]


def _shards(keys: ImportKeys, names: Mapping[Member, UserId]) -> Mapping[str, Mapping[int, list[int]]]:
    by_subject: dict[str, dict[int, list[int]]] = defaultdict(dict)
    places = keys // np.uint64(SHARD_MEMBERS)
    for block_keys in np.split(keys, np.flatnonzero(np.diff(places)) + 1):
        follower_or_followed = names[Member(int(block_keys[0]) >> HALF_KEY_BITS)]
        offsets = (block_keys % np.uint64(SHARD_MEMBERS)).tolist()
        by_subject[_subject(follower_or_followed)][shard_of(Member(int(block_keys[0]) & (1 << HALF_KEY_BITS) - 1))] = (
            offsets
        )
    return by_subject


def _subject(user: UserId) -> str:
    return str(Subject(Kind.MENTION, user))


NUMBERED_ROWS, NUMBERED_ROWS_QUICK = 20_000_000, 2_000_000
NAMED_ROWS, NAMED_ROWS_QUICK = 2_000_000, 200_000
"""Rows: two for each follower."""
ROUNDS, ROUNDS_QUICK = 3, 1
STARS = (1, 2)
SPARSE_ROWS, SPARSE_ROWS_QUICK = 100_000, 10_000
"""Rows of accounts with two followers each."""
ROWS_PER_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    file: Path
    rows: int
    named: bool
    """Ids are strings such as `u7`. Otherwise they are numbers such as 7, of a range in the directory."""
    stars: Sequence[int] = STARS

    def write(self) -> None:
        rows_per_star = self.rows // len(self.stars)
        people = np.arange(rows_per_star, dtype=np.int64) * 2 + max(self.stars) + 1
        order = np.random.default_rng(1).permutation(self.rows)
        columns = {
            "follower": np.tile(people, len(self.stars))[order],
            "followed": np.repeat(np.array(self.stars, dtype=np.int64), rows_per_star)[order],
        }
        table = pa.table({name: self._ids(numbers) for name, numbers in columns.items()})
        (pc.write_csv if self.file.suffix == ".csv" else pq.write_table)(table, self.file)

    def users(self) -> list[UserId]:
        return [UserId(f"u{star}" if self.named else str(star)) for star in self.stars]

    def _ids(self, numbers: np.ndarray) -> object:
        return [f"u{number}" for number in numbers.tolist()] if self.named else numbers


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    rounds, named, numbered, sparse = (
        (ROUNDS_QUICK, NAMED_ROWS_QUICK, NUMBERED_ROWS_QUICK, SPARSE_ROWS_QUICK)
        if quick
        else (ROUNDS, NAMED_ROWS, NUMBERED_ROWS, SPARSE_ROWS)
    )
    exports = {
        "numbers": Export(file=folder / "numbers.parquet", rows=numbered, named=False),
        "names": Export(file=folder / "names.parquet", rows=named, named=True),
        "csv": Export(file=folder / "names.csv", rows=named, named=True),
        "sparse": Export(file=folder / "sparse.parquet", rows=sparse, named=False, stars=range(1, sparse // 2 + 1)),
    }
    tell("writing files")
    for export in exports.values():
        export.write()
    costs: dict[str, list[Cost]] = {name: [] for name in (*exports, "lean")}
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}")
        for name, export in exports.items():
            costs[name].append(_ours(folder / "data", export))
        costs["lean"].append(_lean(folder / "data", exports["names"]))
    return _figures(costs, exports)


def _figures(costs: Mapping[str, Sequence[Cost]], exports: Mapping[str, Export]) -> list[Figure]:
    rows = {name: export.rows for name, export in exports.items()}
    core = Spread.of([rows["numbers"] / run_cost.processor for run_cost in costs["numbers"]], "1/s")
    took = Spread.of([run_cost.seconds for run_cost in costs["numbers"]])
    detail = f"rows per second of CPU time; {rows['numbers']:,} rows took {took.median:g} s"
    judged = at_least("import_numbered_edges_per_s", core.median, 1e6, unit="1/s", n=core.n, detail=detail)
    return [
        Figure(finding=judged, ours=core),
        ratio("import_full_ratio", costs["names"], costs["lean"], 0.5, rows=rows["names"]),
        *(
            unjudged(
                f"import_rows_per_s{{{name}}}",
                Spread.of([rows[name] / run_cost.seconds for run_cost in costs[name]], "1/s"),
                rows[name],
            )
            for name in ("names", "csv", "sparse")
        ),
    ]


def _ours(data: Path, export: Export) -> Cost:
    """Import into an empty store."""
    settings = Settings(data=data)
    data.mkdir()
    profile = choose(settings)
    try:
        profile.ensure_schema()
        ports = profile.ports()
        ids = IdRange(
            prefix="", first=1, count=2 * NUMBERED_ROWS, first_member=ports.directory.lease(2 * NUMBERED_ROWS)
        )
        ports.directory.enrol_range(ids)
        system = build_system(ports=ports, settings=settings, metrics=Metrics(), owner="bench")
        took = cost(lambda: _imported(system, data / "imports", export.file))
        _require_counted(system, export)
        return took
    finally:
        profile.close()
        shutil.rmtree(data)


def _imported(system: System, folder: Path, file: Path) -> None:
    p = system.ports
    followers = FollowerImport(directory=p.directory, follows=p.follows, log=p.log, visible_from=ALWAYS)
    work = Import(kind=followers, key_sort=SpilledEdges(folder))
    with open_source(file, form_of(file.name), FOLLOWS, _unexpected, ROWS_PER_CHUNK) as source:
        work.read(source.rows_after(0))
    work.write()
    reader = build_stream_processor(system, topics.FOLLOWS)
    with closing(reader.consumer):
        while reader.step(timedelta(milliseconds=10)):
            pass


def _lean(data: Path, export: Export) -> Cost:
    data.mkdir()
    files = Files.at(data)
    try:
        files.migrate()
        return cost(lambda: lean_import(files, export.file))
    finally:
        files.close()
        shutil.rmtree(data)


def _require_counted(system: System, export: Export) -> None:
    heads = [system.ports.sets.follower_counts(Subject(Kind.MENTION, user)).total for user in export.users()]
    if sum(heads) != export.rows:
        raise AssertionError(f"only {sum(heads)} of {export.rows} follows were counted")


def _unexpected(line: int, why: str) -> None:
    raise AssertionError(f"row {line} was rejected: {why}")


PARTS: Parts = {
    "imports": (
        run,
        (
            "import_numbered_edges_per_s",
            "import_full_ratio",
            "import_rows_per_s{names}",
            "import_rows_per_s{csv}",
            "import_rows_per_s{sparse}",
        ),
    )
}
