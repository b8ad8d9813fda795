"""Store check: compares stored bursts, snapshots, ledger and rows with the oracle."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from notifier.devkit.check.check_alerts import AlertGuarantees, ArrivedAlert, ExpectedAlerts
from notifier.devkit.check.expected_result import ExpectedMention, ExpectedResult
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.devkit.check.mention_storm import SOURCE, Tweet
from notifier.devkit.fixture.world import Flags, World
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.inbox_rows import RANGE_MEMBERS, SHARD_RANGES
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import POLICIES, BurstKey, Kind, Lane, Subject
from notifier.ports.bursts import Bursts
from notifier.ports.ledger_claims_deferred_bursts_scan import DeferredBursts, Ledger, StoredRow, StoreScan


@dataclass(slots=True, kw_only=True)
class StoredRecipients:
    """Members that the stored inbox rows of one burst reach."""

    row_count: int = 0
    by_tier: dict[tuple[Tier, int], Flags] = field(default_factory=dict)
    """Recipients by tier and shard."""
    duplicate_count: int = 0
    """Number of members with more than one row."""

    def tier(self, tier: Tier, shard: int) -> Flags:
        return self.by_tier.get((tier, shard), _NO_MEMBERS)

    def count(self) -> int:
        return sum(int(flags.sum()) for flags in self.by_tier.values())


def merge_rows(rows: Iterable[StoredRow]) -> StoredRecipients:
    merged = StoredRecipients()
    row_counts: dict[tuple[Tier, int], npt.NDArray[np.uint8]] = defaultdict(
        lambda: np.zeros(SHARD_MEMBERS, dtype=np.uint8)
    )
    for stored in rows:
        merged.row_count += 1
        shard, number = divmod(stored.member_range, SHARD_RANGES)
        np.add.at(row_counts[stored.row.tier, shard], number * RANGE_MEMBERS + stored.row.offsets(), 1)
    shards = {shard for _, shard in row_counts}
    for shard in shards:
        total = sum(counts.astype(np.int64) for (_, row_shard), counts in row_counts.items() if row_shard == shard)
        merged.duplicate_count += int((np.asarray(total) > 1).sum())
    merged.by_tier = {key: counts > 0 for key, counts in row_counts.items()}
    return merged


_NO_MEMBERS = np.zeros(SHARD_MEMBERS, dtype=np.bool_)


@dataclass(slots=True, kw_only=True)
class StoreCheck:
    store_scan: StoreScan
    bursts_port: Bursts
    world: World
    recipients: dict[BurstKey, StoredRecipients] = field(default_factory=dict)
    alerts: ExpectedAlerts = field(default_factory=ExpectedAlerts)
    """Expected alerts, complete once `rows_equal_oracle` has run."""

    def truth(self, accepted: Sequence[Tweet]) -> ExpectedResult:
        bursts = {burst.key: burst for burst in self.store_scan.bursts()}
        return ExpectedResult(
            world=self.world,
            mentions=[mention for tweet in accepted for mention in self._expected_mentions(tweet)],
            bursts=bursts,
        )

    def _expected_mentions(self, tweet: Tweet) -> Iterator[ExpectedMention]:
        stored = self.bursts_port.outcomes(SOURCE, tweet.id)
        for account in tweet.mentioned:
            bursts = [outcome.burst for outcome in stored if outcome.account == account and outcome.burst]
            yield ExpectedMention(tweet=tweet, account=account, bursts=bursts)

    def nothing_lost(self, truth: ExpectedResult, refused: Collection[str]) -> Finding:
        """Check that no event was refused, and that each mention counts in one MENTION and one SELF burst."""
        return no_errors("nothing_lost", [*refused, *_misplaced(truth), *_miscounted(truth)], n=len(truth.mentions))

    def rows_equal_oracle(self, truth: ExpectedResult) -> Finding:
        """Compare the recipients of every burst with the oracle, member by member, without sampling."""
        wrong = [line for burst in truth.bursts.values() for line in self._differences(truth, burst)]
        deliveries = sum(recipients.count() for recipients in self.recipients.values())
        finding = no_errors("rows_equal_oracle", wrong, n=len(truth.bursts))
        return finding if wrong else _with_detail(finding, f"{deliveries:,} deliveries compared, user by user")

    def _differences(self, truth: ExpectedResult, burst: Burst) -> Iterator[str]:
        recipients = self.recipients[burst.key] = merge_rows(self.store_scan.rows(burst.key))
        shards = {shard for _, shard in recipients.by_tier} | set(truth.shards(burst.key.subject))
        for shard in sorted(shards):
            expected = truth.tiers(burst, shard)
            self.alerts.expect(burst, shard, expected, truth.with_device(shard))
            for tier in TIERS:
                missing = int((expected[tier] & ~recipients.tier(tier, shard)).sum())
                extra = int((recipients.tier(tier, shard) & ~expected[tier]).sum())
                if missing or extra:
                    yield f"{burst.key} {tier} shard {shard}: {missing} missing, {extra} extra"

    def alerts_equal_oracle(self, arrived: Collection[ArrivedAlert], guarantees: AlertGuarantees) -> Finding:
        return self.alerts.finding(arrived, self.store_scan.burst_progress(), guarantees)

    def duplicates(self) -> list[str]:
        return [
            f"{key}: {recipients.duplicate_count} users have more than one row"
            for key, recipients in self.recipients.items()
            if recipients.duplicate_count
        ]

    def totals_balance(self, truth: ExpectedResult) -> Finding:
        """Check that the members of each burst's snapshots are delivered, suppressed, pulled or dead.

        The oracle must expect as many members.
        """
        progress_by_burst = {progress.plan.burst: progress for progress in self.store_scan.burst_progress()}
        wrong = [f"{key} has no plan" for key in truth.bursts if key not in progress_by_burst] + list(
            self._missing_fanouts(truth)
        )
        for key, progress in progress_by_burst.items():
            wrong += self._unbalanced(truth, truth.bursts[key], progress)
        return no_errors("totals_balance", wrong, n=len(progress_by_burst))

    def _missing_fanouts(self, truth: ExpectedResult) -> Iterator[str]:
        """Yield an error for each pull-only burst that should have been fanned out.

        Only a restricted MENTION burst may be pull-only, if its account has more than `max_small_followers` followers
        and has spent the fan-out budget.
        """
        fanned_out: Counter[Subject] = Counter()
        for key, burst in sorted(truth.bursts.items()):
            policy = POLICIES[key.subject.kind]
            if burst.restricted_to is None or not burst.pull_only:
                fanned_out[key.subject] += burst.restricted_to is not None
            if burst.pull_only and not (
                burst.restricted_to and key.subject.kind is Kind.MENTION and not self._is_small(key.subject)
            ):
                yield f"{key} is pull-only, but must be fanned out"
            elif burst.pull_only and fanned_out[key.subject] < policy.budget_capacity:
                yield f"{key} is pull-only, although the fan-out budget isn't spent"

    def _unbalanced(self, truth: ExpectedResult, burst: Burst, progress: BurstProgress) -> Iterator[str]:
        user_counts = dict.fromkeys(Fact, 0)
        for state in progress.slice_states.values():
            if state.final_entry is None:
                yield f"{state.slice} has not ended"
            elif state.slice.step is Step.ROWS:
                user_counts[state.final_entry.fact] += state.final_entry.people
        shards = truth.shards(burst.key.subject)
        snapshots = {snapshot.shard: snapshot for snapshot in self.store_scan.audience_snapshots(burst.key)}
        suppressed = sum(sum(snapshot.suppressed_counts.values()) for snapshot in snapshots.values())
        expected = suppressed + sum(snapshot.reached_count(tier) for snapshot in snapshots.values() for tier in TIERS)
        oracle = {shard: truth.expected_count(burst, shard) for shard in shards}
        by_formula = sum(oracle.values())
        delivered, not_delivered = user_counts[Fact.DONE], user_counts[Fact.PULLED] + user_counts[Fact.DEAD]
        if missing := [shard for shard, people in oracle.items() if people and shard not in snapshots]:
            yield f"{burst.key}: {len(missing)} shards without an audience snapshot"
        if not expected == by_formula == delivered + not_delivered + suppressed:
            yield (
                f"{burst.key}: {expected} in snapshots, {by_formula} by formula, "
                f"{delivered} delivered + {not_delivered} pulled or dead + {suppressed} suppressed"
            )

    def lanes(self, truth: ExpectedResult, threshold: int, min_bursts: int) -> Finding:
        """Check that each MENTION burst is in the right lane, and that there are enough bursts."""
        bursts = [burst for burst in truth.bursts.values() if burst.key.subject.kind is Kind.MENTION]
        wrong = [
            f"{burst.key} is in the wrong lane, {burst.lane}"
            for burst in bursts
            if burst.lane is not self._lane(burst, threshold)
        ]
        lanes = [burst.lane for burst in bursts]
        if Lane.CELEBRITY not in lanes:
            wrong.append("no burst is in the celebrity lane")
        if min_bursts and Lane.STANDARD not in lanes:
            wrong.append("no burst is in the standard lane")
        if len(truth.bursts) < min_bursts:
            wrong.append(f"{len(truth.bursts)} bursts in total, fewer than {min_bursts}")
        detail = (
            f"{lanes.count(Lane.CELEBRITY)} bursts in the celebrity lane, "
            f"{lanes.count(Lane.STANDARD)} in the standard lane"
        )
        finding = no_errors("celebrity_lane_used", wrong, n=len(truth.bursts))
        return finding if wrong else _with_detail(finding, detail)

    def _lane(self, burst: Burst, threshold: int) -> Lane:
        size = self.world.follower_count(self.world.celebrity_numbers[burst.key.subject.owner])
        return Lane.CELEBRITY if size >= threshold else Lane.STANDARD

    def distinct_rows(self, truth: ExpectedResult) -> Finding:
        """Check a run without collapsing: mentions of small accounts share no burst, and their bursts have rows."""
        small_mentions = [
            (mention, key) for mention in truth.mentions for key in mention.bursts if self._is_small(key.subject)
        ]
        shared = [
            f"{key} has {n} mentions"
            for key, n in truth.mention_counts().items()
            if n > 1 and self._is_small(key.subject)
        ]
        rowless = [
            f"{key} has no rows"
            for _, key in small_mentions
            if self._expects_rows(truth, key) and not self._row_count(key)
        ]
        return no_errors("collapse_off_distinct_rows", [*shared, *rowless], n=len(small_mentions))

    def _is_small(self, subject: Subject) -> bool:
        """Return whether the subject has the mentions of a small account, for which collapsing can be turned off."""
        if subject.kind is not Kind.MENTION:
            return False
        return (
            self.world.follower_count(self.world.celebrity_numbers[subject.owner])
            <= POLICIES[subject.kind].max_small_followers
        )

    def _expects_rows(self, truth: ExpectedResult, key: BurstKey) -> bool:
        burst = truth.bursts[key]
        return any(f.any() for shard in truth.shards(key.subject) for f in truth.tiers(burst, shard).values())

    def _row_count(self, key: BurstKey) -> int:
        return self.recipients[key].row_count


def poll_drained(ledger: Ledger, deferred: DeferredBursts, bursts_port: Bursts, unplanned: dict[str, Tweet]) -> bool:
    """Remove the first tweets from `unplanned`, up to a tweet whose bursts are not all planned.

    Return whether all tweets are removed and no burst has pending work.
    """
    try:
        for tweet in list(unplanned.values()):
            stored = bursts_port.outcomes(SOURCE, tweet.id)
            bursts = [outcome.burst for outcome in stored if outcome.burst]
            # A mention has two bursts. A burst can be read before it is planned, and its work is unknown until then.
            if len(bursts) < 2 * len(tweet.mentioned) or len(ledger.read(bursts)) < len(set(bursts)):
                return False
            del unplanned[tweet.id]
        # Read the unfinished bursts after the plans: until all plans exist, more bursts may open. Read them once more
        # after the deferred bursts: one of those may have woken between the two reads, and would be missed.
        return not (ledger.unfinished_bursts() or deferred.count() or ledger.unfinished_bursts())
    except StoreUnavailable:
        return False


def _misplaced(truth: ExpectedResult) -> Iterator[str]:
    for mention in truth.mentions:
        subjects = sorted(key.subject for key in mention.bursts)
        expected = sorted(Subject(kind, mention.account) for kind in (Kind.MENTION, Kind.SELF))
        if subjects != expected:
            wrong_bursts = [str(key) for key in mention.bursts]
            yield f"{mention.tweet.id} for {mention.account} is in the wrong bursts: {wrong_bursts}"
        elif any(key not in truth.bursts for key in mention.bursts):
            yield f"{mention.tweet.id} for {mention.account} is in a burst that doesn't exist"


def _miscounted(truth: ExpectedResult) -> Iterator[str]:
    counts: Mapping[BurstKey, int] = truth.mention_counts()
    for burst in truth.bursts.values():
        if burst.count != counts.get(burst.key, 0):
            yield f"{burst.key} counts {burst.count} mentions, but contains {counts.get(burst.key, 0)}"


def _with_detail(finding: Finding, detail: str) -> Finding:
    return Finding(
        name=finding.name, ok=finding.ok, value=finding.value, limit=0, unit=finding.unit, n=finding.n, detail=detail
    )
