"""Moderation: decides how far mentions carry, from facts read once per batch of events."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.mention import Event, EventId
from notifier.domain.bursts.moderation import (
    Mentioner,
    MentionRefusal,
    MentionsAllowed,
    ReachLimit,
    Verdict,
    VerdictRule,
    apply_rule,
    by_operator_verdict,
)
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import DEFAULT_ACCOUNT_PREFERENCES, AccountPreferences
from notifier.ports.audience import Follows, Pair
from notifier.ports.directory import Directory, DirectoryEntry
from notifier.ports.retractions import HeldMentions, ReachLimits
from notifier.ports.users import AccountPreferencesStore

REFUSALS = {Verdict.DENY: MentionRefusal.DENIED, Verdict.HOLD: MentionRefusal.HELD}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModerationFacts:
    """Moderation facts about all accounts that a batch of events names."""

    accounts: Mapping[UserId, DirectoryEntry]
    limits: Mapping[UserId, ReachLimit]
    account_preferences: Mapping[Member, AccountPreferences]
    follow_pairs: Collection[Pair]
    """Pairs in which the mentioned account follows the mentioner; only read for accounts whose setting needs it."""
    held_mentions: Mapping[EventId, HeldMention]
    """Held mentions by event, decided or not."""
    rule: VerdictRule

    def verdict(
        self, event: Event, name: UserId, within_cap: Callable[[], bool], *, released: bool
    ) -> Verdict | MentionRefusal:
        """Return how far the mention carries to the account's followers, or why they get none.

        With NOT_WANTED the account itself still gets it. The cap is checked last, because checking consumes a token.
        """
        account = self.accounts.get(name)
        if (why := _account_refusal(event, account)) is not None:
            return why
        assert account is not None
        # Regardless of the author's current limit: a repeated event must not bypass a pending or dropped hold.
        if (hold := self.held_mentions.get(event.id)) is not None and hold.withholds(released=released):
            return MentionRefusal.HELD
        mentioner = self._mentioner(event.author)
        if (why := REFUSALS.get(apply_rule(self.rule, mentioner, released=released))) is not None:
            return why
        if not self._is_allowed(event, account, mentioner):
            return MentionRefusal.NOT_WANTED
        if not within_cap():
            mentioner = replace(mentioner, within_cap=False)
        decision = apply_rule(self.rule, mentioner, released=released)
        return REFUSALS.get(decision, decision)

    def verdict_for_account(self, event: Event, *, released: bool) -> Verdict:
        """Return how far an admitted mention carries to the account itself. The author's cap does not apply here."""
        return apply_rule(self.rule, self._mentioner(event.author), released=released)

    def _mentioner(self, user: UserId) -> Mentioner:
        account, limit = self.accounts.get(user), self.limits.get(user)
        return Mentioner(
            operator_verdict=limit.verdict if limit else Verdict.ALL,
            verified=account is not None and account.verified,
            deleted=account is not None and account.deleted,
        )

    def _is_allowed(self, event: Event, account: DirectoryEntry, mentioner: Mentioner) -> bool:
        allowed = _mentions_allowed(self.account_preferences, account)
        followed = allowed is MentionsAllowed.FOLLOWED and _follow_pair(event, account) in self.follow_pairs
        return allowed.admits(followed=followed, verified=mentioner.verified)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModerationLookup:
    directory: Directory
    reach_limits: ReachLimits
    account_preferences: AccountPreferencesStore
    follows: Follows
    held_mentions: HeldMentions
    rule: VerdictRule = by_operator_verdict

    def __call__(self, events: Sequence[Event]) -> ModerationFacts:
        """Read the facts for a batch of events, in three lookups.

        An author with an operator's limit costs one more. So does an account that accepts mentions only from accounts
        it follows. Raises StoreUnavailable.
        """
        accounts = self.directory.accounts({name for event in events for name in (event.author, *event.mentioned)})
        named = {account.member for event in events for name in event.mentioned if (account := accounts.get(name))}
        account_preferences = self.account_preferences.read_current(named)
        limits = self.reach_limits.read_current({event.author for event in events})
        return ModerationFacts(
            accounts=accounts,
            limits=limits,
            account_preferences=account_preferences,
            follow_pairs=self._following(events, accounts, account_preferences),
            held_mentions=self._held([event for event in events if event.author in limits]),
            rule=self.rule,
        )

    def _held(self, events: Sequence[Event]) -> Mapping[EventId, HeldMention]:
        ids = {event.id.id for event in events}
        return {hold.id: hold for hold in self.held_mentions.by_event_id(ids)} if ids else {}

    def _following(
        self,
        events: Sequence[Event],
        accounts: Mapping[UserId, DirectoryEntry],
        account_preferences: Mapping[Member, AccountPreferences],
    ) -> Collection[Pair]:
        pairs = {
            _follow_pair(event, account)
            for event in events
            for name in event.mentioned
            if (account := accounts.get(name))
            and _mentions_allowed(account_preferences, account) is MentionsAllowed.FOLLOWED
        }
        return {pair for pair, follows in self.follows.read_current(pairs).items() if follows} if pairs else ()


def _account_refusal(event: Event, account: DirectoryEntry | None) -> MentionRefusal | None:
    """Return why the account cannot be mentioned, or None if it can."""
    if account is None:
        return MentionRefusal.UNKNOWN_ACCOUNT
    if account.deleted:
        return MentionRefusal.DELETED_ACCOUNT
    return MentionRefusal.SELF_MENTION if account.user == event.author else None


def _mentions_allowed(
    account_preferences: Mapping[Member, AccountPreferences], account: DirectoryEntry
) -> MentionsAllowed:
    return account_preferences.get(account.member, DEFAULT_ACCOUNT_PREFERENCES).mentions


def _follow_pair(event: Event, account: DirectoryEntry) -> Pair:
    """Return the pair whose follow means that the account follows the author."""
    return Subject(Kind.MENTION, event.author), account.member
