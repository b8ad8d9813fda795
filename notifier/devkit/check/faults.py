"""Faults for a running notifier: what is killed, stopped, cut off or emptied, at moments that a seed chose."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from notifier.adapters.redis.connect import connect
from notifier.devkit.check.finding import Finding, agreement
from notifier.devkit.check.http_client import HttpClient, HttpResponse
from notifier.devkit.check.instance import Engines, Instance
from notifier.devkit.engines.fleet import ENGINES
from notifier.devkit.fixture.users import FixtureUser
from notifier.domain.delivery.slice import PHONES, TERMS, Pool
from notifier.domain.ids import UserId

TIMES = 2
"""Each kind strikes so often."""
OF_A_POOL: Mapping[str, Sequence[Pool]] = {
    "kill-worker": tuple(Pool),
    "kill-push": tuple(map(Pool, PHONES)),
    "stop-worker": (Pool.P0, Pool.P1),
}
"""Whose workers a kind may strike. P2's claims are so long that a storm would be over before one stopped lost it."""
FOUND_WITHIN = 10.0
"""Seconds in which a role that is just being started again must be back."""
PUMP_STOPPED = 7.0
"""Seconds: longer than a reader of the log may be silent, and than a lease on being the only one at a job."""
FROZEN = 8.0
"""Seconds of an engine: longer than any of its clients waits for an answer."""
PARTED, SLOWED, REFUSED = 3.0, 5.0, 5.0
"""Seconds without a network, with a slow one, and with a node that refuses half of what it is asked."""
LATENCY = 0.1
"""Seconds there, and as many back: of another continent."""
OUTAGE = 20.0
"""Seconds without a store."""
STORE_OUTAGE = "store-outage"
EARLY = 0.1
"""Of its half of the storm, at most, passes before the store goes away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    at: float
    """Seconds from the storm's beginning."""
    kind: str
    pool: Pool
    gone: bool = False
    """Of an outage: the process is killed, instead of being frozen."""

    def __str__(self) -> str:
        target = f" {self.pool}" if self.kind in OF_A_POOL else ""
        way = f" ({'gone' if self.gone else 'frozen'})" if self.kind == STORE_OUTAGE else ""
        return f"{self.kind}{target}{way} at {self.at:.1f} s"


def schedule(kinds: Sequence[str], seed: int, lasting: float) -> list[InjectedFault]:
    """An outage of the store comes in both ways, one in each half of the storm."""
    chance = random.Random(f"faults {seed}")
    return sorted(
        (
            InjectedFault(
                at=_moment(kind, turn, lasting, chance.uniform(0.05, 1.0)),
                kind=kind,
                pool=chance.choice(OF_A_POOL.get(kind, tuple(Pool))),
                gone=turn == 1,
            )
            for kind in kinds
            for turn in range(TIMES)
        ),
        key=lambda fault: fault.at,
    )


def _moment(kind: str, turn: int, lasting: float, share: float) -> float:
    return lasting * (turn + share * EARLY) / TIMES if kind == STORE_OUTAGE else lasting * share


def proxied(kinds: Collection[str]) -> set[str]:
    """The engines whose network fails."""
    return {name for kind in kinds for way, _, name in [kind.partition("-")] if way in ("cut", "slow", "refuse")}


@dataclass(slots=True, kw_only=True)
class Saboteur:
    instance: Instance
    redis_url: Callable[[], str]
    faults: Sequence[InjectedFault]
    engines: Engines | None = None
    """None: there are only those that `up` looks after."""
    outage: float = OUTAGE
    before: Callable[[], None] = lambda: None
    """Told before the store goes away."""
    during: Callable[[], None] = lambda: None
    """Told again and again while it is."""
    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def start(self) -> threading.Thread:
        """The thread ends when every fault has struck and every stopped process goes on."""
        thread = threading.Thread(target=self._run, name="saboteur", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        began = time.monotonic()
        for fault in self.faults:
            time.sleep(max(0.0, began + fault.at - time.monotonic()))
            try:
                struck, why = {**STRIKES, **STRIKES_ON_ENGINES}[fault.kind](self, fault), ""
            except Exception as error:
                struck, why = False, f": {error}"
            (self.done if struck else self.failed).append(f"{fault}{why}")

    def _pid(self, role: str) -> int | None:
        deadline = time.monotonic() + FOUND_WITHIN
        while time.monotonic() < deadline:
            pid = self.instance.pid(role)
            if pid is not None and _alive(pid):
                return pid
            time.sleep(0.05)
        return None

    def worker(self, fault: InjectedFault) -> str:
        """Of a pool with several each in turn."""
        roles = sorted(self.instance.workers(str(fault.pool))) or [str(fault.pool)]
        return roles[(len(self.done) + len(self.failed)) % len(roles)]

    def kill(self, role: str) -> bool:
        pid = self._pid(role)
        if pid is None:
            return False
        os.kill(pid, signal.SIGKILL)
        return True

    def stop(self, role: str, seconds: float) -> bool:
        """Then it wakes as a zombie, and must not spoil what others did meanwhile."""
        pid = self._pid(role)
        if pid is None:
            return False
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return True

    def kill_valkey(self) -> bool:
        """One that `up` looks after is only killed."""
        return self.kill("valkey") if self.engines is None else self.on(lambda engines: engines.kill("valkey"))

    def on(self, strike: Callable[[Engines], None]) -> bool:
        if self.engines is None:
            return False
        strike(self.engines)
        return True

    def store_outage(self, *, gone: bool) -> bool:
        self.before()
        with self._watched():
            return self.on(lambda engines: (engines.kill if gone else engines.freeze)("cassandra", self.outage))

    @contextmanager
    def _watched(self) -> Iterator[None]:
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.5):
                self.during()

        thread = threading.Thread(target=watch, name="onlooker", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def flush(self) -> bool:
        deadline = time.monotonic() + FOUND_WITHIN
        while time.monotonic() < deadline:
            client = connect(self.redis_url())
            try:
                return bool(client.flushall())
            except Exception:
                time.sleep(0.1)
            finally:
                client.close()
        return False


Strike = Callable[[Saboteur, InjectedFault], bool]


def _past_its_claim(saboteur: Saboteur, fault: InjectedFault) -> bool:
    return saboteur.stop(saboteur.worker(fault), TERMS[fault.pool].claim.total_seconds() + 1.5)


def _on(engine: str, strike: Callable[[Engines, str], None], saboteur: Saboteur, _: InjectedFault) -> bool:
    return saboteur.on(lambda engines: strike(engines, engine))


STRIKES: Mapping[str, Strike] = {
    "kill-worker": lambda saboteur, fault: saboteur.kill(saboteur.worker(fault)),
    "kill-push": lambda saboteur, fault: saboteur.kill(saboteur.worker(fault)),
    "kill-fakes": lambda saboteur, _: saboteur.kill("fakes"),
    "kill-pump": lambda saboteur, _: saboteur.kill("pump"),
    "kill-api": lambda saboteur, _: saboteur.kill("api"),
    "kill-valkey": lambda saboteur, _: saboteur.kill_valkey(),
    "flush-valkey": lambda saboteur, _: saboteur.flush(),
    "stop-worker": _past_its_claim,
    "stop-pump": lambda saboteur, _: saboteur.stop("pump", PUMP_STOPPED),
}
"""Of both profiles."""
STRIKES_ON_ENGINES: Mapping[str, Strike] = {
    "kill-kafka": partial(_on, "kafka", Engines.kill),
    "kill-cassandra": partial(_on, "cassandra", Engines.kill),
    "stop-kafka": partial(_on, "kafka", lambda engines, name: engines.freeze(name, FROZEN)),
    "stop-cassandra": partial(_on, "cassandra", lambda engines, name: engines.freeze(name, FROZEN)),
    "refuse-cassandra": lambda saboteur, _: saboteur.engines is not None and saboteur.engines.refuse(REFUSED),
    STORE_OUTAGE: lambda saboteur, fault: saboteur.store_outage(gone=fault.gone),
    **{f"cut-{name}": partial(_on, name, lambda engines, name: engines.cut(name, PARTED)) for name in ENGINES},
    **{
        f"slow-{name}": partial(_on, name, lambda engines, name: engines.slow(name, SLOWED, LATENCY))
        for name in ENGINES
    },
}
"""Of the cluster profile alone."""


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


# An onlooker: opens tabs while the store is away, and finds out what people are answered meanwhile.

ANSWERED_WITHIN = 5.0
"""Seconds: a tab asks the store up to twice, one after the other, and waits for 2 s each time."""
GONE = "no answer"


@dataclass(slots=True, kw_only=True)
class Onlooker:
    instance: Instance
    token: Callable[[UserId], str]
    people: Sequence[FixtureUser]
    killed: bool = False
    """Whether the API is among what is killed: while it comes back there is nobody to answer."""
    answers: list[HttpResponse] = field(default_factory=list)

    def everybody(self) -> None:
        """A look at every tab, which nobody judges: afterwards the service knows what they were shown."""
        for person in self.people:
            self._answer(person)

    def __call__(self) -> None:
        """One look; every time at somebody else's tab."""
        self.answers.append(self._answer(self.people[len(self.answers) % len(self.people)]))

    def _answer(self, person: FixtureUser) -> HttpResponse:
        wire = HttpClient(url=self.instance.url, bearer=self.token(person.user))
        try:
            return wire.get("/v1/inbox")
        finally:
            wire.close()

    def finding(self) -> Finding:
        """Whole from what is known, partial, or a refusal that says when to come again; and never late."""
        codes = [_word(answer) for answer in self.answers]
        longest = max((answer.seconds for answer in self.answers), default=0.0)
        right = ("whole", "partial", "503", *([GONE] if self.killed else ()))
        wrong = [word for word in codes if word not in right]
        if longest > ANSWERED_WITHIN:
            wrong.append(f"one answer took {longest:.1f} s")
        told = ", ".join(f"{codes.count(word)} {word}" for word in sorted(set(codes)))
        detail = "; ".join([*wrong[:3], f"{told}; the last to come took {longest:.1f} s"])
        found = agreement("tabs_in_outage", wrong, n=len(codes))
        return replace(found, detail=detail)


def _word(answer: HttpResponse) -> str:
    if answer.status == 200:
        return "partial" if answer.body["partial"] else "whole"
    return str(answer.status) if answer.status else GONE
