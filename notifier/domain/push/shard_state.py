"""State of one shard of a slice on its way through the push pipeline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter

from notifier.domain.audience.bitmap import Bits, contains, no_members
from notifier.domain.ids import Member
from notifier.domain.push.late_alert_catch_up import LateAudience
from notifier.domain.push.send_log import (
    NOTHING_SENT,
    AttemptState,
    OlderBursts,
    SendLogKey,
    SendProgress,
    is_retry_window_over,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardState:
    """State of a shard. Three steps of the pipeline set its fields, in this order: load, suppress, catch up."""

    log_key: SendLogKey
    """The send log of this burst, tier, shard and platform."""
    to_alert: Bits
    """Members to alert according to the audience snapshot. Set by load."""
    progress: SendProgress = NOTHING_SENT
    """Progress according to the send log. Set by load."""
    suppressed: Bits = field(default_factory=no_members)
    """Members who get no alert for this burst, now or later. Set by suppress."""
    quiet: Bits = field(default_factory=no_members)
    """Members who are not suppressed but in quiet hours now. Set by suppress."""
    quiet_until: datetime | None = None
    """When to check the quiet members again. Set by suppress."""
    collapsed: Bits = field(default_factory=no_members)
    """Members whose alert of a newer burst covers this burst. Set by catch up."""
    deferred: Bits = field(default_factory=no_members)
    """Members who wait, because a newer burst's alert may be about to cover this one. Set by catch up."""
    covers: Mapping[OlderBursts, Bits] = field(default_factory=dict)
    """Members whose alert also covers these older bursts. Set by catch up."""

    @property
    def shard(self) -> int:
        return self.log_key.shard

    @property
    def unsent(self) -> Bits:
        """Return the members who are in no batch yet and not suppressed."""
        not_in_batch: Bits = self.to_alert & ~self.progress.in_batches
        return not_in_batch & ~self.suppressed

    @property
    def ready(self) -> Bits:
        """Return the members to put into a batch now."""
        bits: Bits = self.unsent & ~self.quiet & ~self.deferred
        return bits

    def after_catch_up(self, audience: LateAudience) -> "ShardState":
        covers = {older_bursts: bits for older_bursts, bits in audience.covers.items() if older_bursts}
        return replace(self, collapsed=audience.collapsed, deferred=audience.deferred, covers=covers)

    def due_retries(self, now: datetime) -> Sequence[AttemptState]:
        """Return the attempts whose time has come, ordered by member.

        Retries of members in quiet hours wait, unless their retry window is over: those are closed without being sent.
        """
        due = [
            failure.state
            for failure in self.progress.pending_retries.values()
            if failure.at is not None and failure.at <= now
        ]
        to_handle = [
            attempt_state
            for attempt_state in due
            if is_retry_window_over(attempt_state, now) or not contains(self.quiet, attempt_state.member)
        ]
        return sorted(to_handle, key=attrgetter("member"))

    def may_retry(self, attempt_state: AttemptState, now: datetime) -> bool:
        return not contains(self.suppressed, attempt_state.member) and not is_retry_window_over(attempt_state, now)

    def wake_times(self, now: datetime) -> Iterator[datetime]:
        """Yield the times after `now` at which this shard has more work: retries, and the end of quiet hours."""
        pending = self.progress.pending_retries.values()
        yield from (failure.at for failure in pending if failure.at is not None and failure.at > now)
        if self.quiet_until is not None and self._waits_for_quiet_hours():
            yield self.quiet_until

    def _waits_for_quiet_hours(self) -> bool:
        return bool((self.unsent & self.quiet).any()) or any(
            self._is_quiet(failure.state.member) for failure in self.progress.pending_retries.values()
        )

    def _is_quiet(self, member: Member) -> bool:
        return contains(self.quiet, member)
