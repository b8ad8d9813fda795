"""Reads the durable state at one moment as input of the oracle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Lane
from tests.support.oracle import InboxMarks, Key, ObservedBurst, Oracle, Tweet
from tests.support.simulator.durable_state import DurableState
from tests.support.simulator.population import Population
from tests.support.simulator.retraction_tracker import RetractionTracker


def key_of(burst: BurstKey) -> Key:
    return str(burst.subject.kind), burst.subject.owner, burst.seq


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBounds:
    """Bursts that one user's list may and must show at one moment."""

    oracle: Oracle
    lenient: Oracle
    published: frozenset[Key]
    moving: frozenset[Key]
    """Bursts that a head is publishing: their place and names may change while a page is read."""
    refused: frozenset[Key]
    """Bursts that Redis refused and still lacks."""
    changes: int
    may: frozenset[Key]
    """Bursts that the list may show, with changes in flight applied or not."""
    must: frozenset[Key]
    now: datetime


@dataclass(frozen=True, slots=True)
class StateReader:
    state: DurableState
    population: Population
    tweets: Mapping[str, Tweet]
    retraction_tracker: RetractionTracker
    _observed: dict[BurstKey, tuple[object, ObservedBurst]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Cache by burst: hardly one in hundreds of reads finds a changed burst."""

    def oracle(self) -> Oracle:
        """Return the oracle with all updates applied."""
        mentions: dict[BurstKey, list[str]] = {}
        for (key, event), _ in self.state.bursts.mentions.items():
            mentions.setdefault(key, []).append(event.id)
        observed_bursts = [self._of(burst, mentions.get(key, ())) for key, burst in self.state.bursts.by_key.items()]
        bursts = {observed.key: observed for observed in observed_bursts}
        retractions = self.retraction_tracker.logged()
        return Oracle(people=self.population.people, tweets=self.tweets, bursts=bursts, retractions=retractions)

    def _of(self, burst: Burst, mentions: Sequence[str]) -> ObservedBurst:
        key, bursts = burst.key, self.state.bursts
        tweets, restricted = tuple(mentions) or (burst.tweet,), bursts.restricted[key]
        opened_version, hidden_version = bursts.opened_version[key], bursts.hidden_version.get(key)
        state = burst, tweets, restricted, opened_version, hidden_version
        if key not in self._observed or self._observed[key][0] != state:
            observed = ObservedBurst(
                key=key_of(key),
                opened_at=burst.opened_at,
                tweets=tweets,
                pull_only=burst.pull_only,
                standard=burst.lane is Lane.STANDARD,
                opened_restricted=restricted,
                left_to="" if restricted else burst.restricted_to or "",
                opened_version=opened_version,
                retracted_version=hidden_version,
            )
            self._observed[key] = state, observed
        return self._observed[key][1]

    def lenient(self) -> Oracle:
        """Return the oracle with only those retractions that must be applied."""
        oracle = self.oracle()
        if not oracle.retractions:
            return oracle
        return replace(
            oracle, retractions=self.retraction_tracker.applied(), unsettled=self.retraction_tracker.unsettled()
        )

    def look(self, person: str, marked: InboxMarks) -> ListBounds:
        oracle, now = self.oracle(), self.state.clock.now()
        lenient = self.lenient() if oracle.retractions else oracle
        oracles = [oracle, lenient] if oracle.retractions else [oracle]
        possible = self.population.possible_states_of(person)
        could_be = (oracle_.of(person_) for oracle_ in oracles for person_ in possible)
        lists = [frozenset(person_.list(person, marked, now)) for person_ in could_be]
        heads = self.state.heads.load(self.state.heads.unpublished(1_000)).values()
        return ListBounds(
            oracle=oracle,
            lenient=lenient,
            published=frozenset(map(key_of, self.state.published())),
            moving=frozenset(key_of(burst.key) for head in heads for burst in head.outbox),
            refused=frozenset(map(key_of, self.state.unannounced)),
            changes=self.population.changes[person],
            may=frozenset[Key]().union(*lists),
            must=lists[0].intersection(*lists[1:]),
            now=now,
        )
