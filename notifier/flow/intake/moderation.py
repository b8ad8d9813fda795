"""Moderation: decides how far mentions carry, from facts read once per batch of events."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.mention import Event, EventId
from notifier.domain.bursts.moderation import (
    Mentioner,
    MentionRefusal,
    MentionsAllowed,
    ReachWord,
    Rule,
    Verdict,
    by_standing,
    verdict,
)
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import NOTHING_SAID, Overall
from notifier.ports.audience import Follows, Pair
from notifier.ports.directory import Directory, DirectoryEntry
from notifier.ports.retractions import Holds, Reaches
from notifier.ports.users import Overalls

BARRED = {Verdict.DENY: MentionRefusal.DENIED, Verdict.HOLD: MentionRefusal.HELD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Moderation facts about all accounts that a batch of events names."""

    accounts: Mapping[UserId, DirectoryEntry]
    words: Mapping[UserId, ReachWord]
    overalls: Mapping[Member, Overall]
    following: Collection[Pair]
    """Pairs in which the mentioned account follows the mentioner; only read for accounts whose setting needs it."""
    holds: Mapping[EventId, HeldMention]
    """Held mentions by event, decided or not."""
    rule: Rule

    def verdict(
        self, event: Event, name: UserId, within_cap: Callable[[], bool], *, released: bool
    ) -> Verdict | MentionRefusal:
        """Return how far the mention carries to the account's followers, or why they get none.

        With NOT_WANTED the account itself still gets it. The cap is checked last, because checking consumes a token.
        """
        account = self.accounts.get(name)
        if (why := _nobody(event, account)) is not None:
            return why
        assert account is not None
        # Regardless of the author's current limit: a repeated event must not bypass a pending or dropped hold.
        if (hold := self.holds.get(event.id)) is not None and hold.keeps(released=released):
            return MentionRefusal.HELD
        mentioner = self._mentioner(event.author)
        if (why := BARRED.get(verdict(self.rule, mentioner, released=released))) is not None:
            return why
        if not self._wanted(event, account, mentioner):
            return MentionRefusal.NOT_WANTED
        if not within_cap():
            mentioner = replace(mentioner, within_cap=False)
        decision = verdict(self.rule, mentioner, released=released)
        return BARRED.get(decision, decision)

    def to_itself(self, event: Event, *, released: bool) -> Verdict:
        """Return how far an admitted mention carries to the account itself. The author's cap does not apply here."""
        return verdict(self.rule, self._mentioner(event.author), released=released)

    def _mentioner(self, user: UserId) -> Mentioner:
        account, limit = self.accounts.get(user), self.words.get(user)
        return Mentioner(
            standing=limit.verdict if limit else Verdict.ALL,
            verified=account is not None and account.verified,
            deleted=account is not None and account.deleted,
        )

    def _wanted(self, event: Event, account: DirectoryEntry, mentioner: Mentioner) -> bool:
        allowed = _allowed(self.overalls, account)
        followed = allowed is MentionsAllowed.FOLLOWED and _pair(event, account) in self.following
        return allowed.admits(followed=followed, verified=mentioner.verified)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaching:
    directory: Directory
    reaches: Reaches
    overalls: Overalls
    follows: Follows
    holds: Holds
    rule: Rule = by_standing

    def __call__(self, events: Sequence[Event]) -> Known:
        """Read the facts for a batch of events, in three lookups.

        An author with an operator's limit costs one more. So does an account that accepts mentions only from accounts
        it follows. Raises StoreUnavailable.
        """
        accounts = self.directory.accounts({name for event in events for name in (event.author, *event.mentioned)})
        named = {account.member for event in events for name in event.mentioned if (account := accounts.get(name))}
        overalls = self.overalls.standing(named)
        limits = self.reaches.standing({event.author for event in events})
        return Known(
            accounts=accounts,
            words=limits,
            overalls=overalls,
            following=self._following(events, accounts, overalls),
            holds=self._held([event for event in events if event.author in limits]),
            rule=self.rule,
        )

    def _held(self, events: Sequence[Event]) -> Mapping[EventId, HeldMention]:
        ids = {event.id.id for event in events}
        return {hold.id: hold for hold in self.holds.of(ids)} if ids else {}

    def _following(
        self, events: Sequence[Event], accounts: Mapping[UserId, DirectoryEntry], overalls: Mapping[Member, Overall]
    ) -> Collection[Pair]:
        asked = {
            _pair(event, account)
            for event in events
            for name in event.mentioned
            if (account := accounts.get(name)) and _allowed(overalls, account) is MentionsAllowed.FOLLOWED
        }
        return {pair for pair, follows in self.follows.standing(asked).items() if follows} if asked else ()


def _nobody(event: Event, account: DirectoryEntry | None) -> MentionRefusal | None:
    """Return why the account cannot be mentioned, or None if it can."""
    if account is None:
        return MentionRefusal.UNKNOWN_ACCOUNT
    if account.deleted:
        return MentionRefusal.DELETED_ACCOUNT
    return MentionRefusal.SELF_MENTION if account.user == event.author else None


def _allowed(overalls: Mapping[Member, Overall], account: DirectoryEntry) -> MentionsAllowed:
    return overalls.get(account.member, NOTHING_SAID).mentions


def _pair(event: Event, account: DirectoryEntry) -> Pair:
    """Return the pair whose follow means that the account follows the author."""
    return Subject(Kind.MENTION, event.author), account.member
