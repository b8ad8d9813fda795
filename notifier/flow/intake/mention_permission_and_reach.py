"""Moderation: decides how far mentions carry, from facts read per batch."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from notifier.domain.bursts.events_and_mentions import Event, EventId
from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.moderation import (
    AuthorVerdict,
    Mentioner,
    MentionRefusal,
    MentionsAllowed,
    Verdict,
    VerdictRule,
    apply_rule,
    by_operator_verdict,
)
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import DEFAULT_ACCOUNT_PREFERENCES, AccountPreferences
from notifier.ports.audience import Follows, SubjectAndMember
from notifier.ports.moderation_and_retractions import AuthorVerdicts, HeldMentions
from notifier.ports.user_directory_and_account_flags import Directory, DirectoryEntry
from notifier.ports.viewers_preferences_user_blocks import AccountPreferencesStore

REFUSAL_BY_VERDICT = {Verdict.DENY: MentionRefusal.DENIED, Verdict.HOLD: MentionRefusal.HELD}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModerationFacts:
    """Facts about the authors and the named accounts of a batch of events."""

    accounts: Mapping[UserId, DirectoryEntry]
    author_verdicts: Mapping[UserId, AuthorVerdict]
    """Operators' verdicts, by author."""
    account_preferences: Mapping[Member, AccountPreferences]
    follow_pairs: Collection[SubjectAndMember]
    """Named accounts that follow an author, as pairs of the author's subject and the account's member.

    They are read only for accounts with the preference `MentionsAllowed.FOLLOWED`.
    """
    held_mentions: Mapping[EventId, HeldMention]
    """Held mentions by event, decided or not."""
    rule: VerdictRule

    def decide(
        self, event: Event, mentioned: UserId, take_author_token: Callable[[], bool], *, released: bool
    ) -> Verdict | MentionRefusal:
        """Return how far the mention carries to the account's followers, or why they do not get it.

        NOT_WANTED stops only the fan-out to followers: the account itself still gets the mention. `released` says that
        an operator has released the mention. `take_author_token` takes a token of the author's cap, and returns False
        if none is left. A mention that is refused anyway takes no token.
        """
        account = self.accounts.get(mentioned)
        if (refusal := _account_refusal(event, account)) is not None:
            return refusal
        assert account is not None
        # Check this even if the author's verdict was lifted: a repeated event stays held if its held mention was
        # dropped, or has no decision yet.
        if (held := self.held_mentions.get(event.id)) is not None and held.withholds(released=released):
            return MentionRefusal.HELD
        mentioner = self._mentioner(event.author)
        if (refusal := REFUSAL_BY_VERDICT.get(apply_rule(self.rule, mentioner, released=released))) is not None:
            return refusal
        if not self._is_allowed(event, account, mentioner):
            return MentionRefusal.NOT_WANTED
        if not take_author_token():
            mentioner = replace(mentioner, within_author_cap=False)
        verdict = apply_rule(self.rule, mentioner, released=released)
        return REFUSAL_BY_VERDICT.get(verdict, verdict)

    def verdict_for_account(self, event: Event, *, released: bool) -> Verdict:
        """Return how far the mention carries to the account itself. The author's cap is not applied.

        Call this for a mention that `decide` admitted or refused as NOT_WANTED.
        """
        return apply_rule(self.rule, self._mentioner(event.author), released=released)

    def _mentioner(self, user: UserId) -> Mentioner:
        account, author_verdict = self.accounts.get(user), self.author_verdicts.get(user)
        return Mentioner(
            operator_verdict=author_verdict.verdict if author_verdict else Verdict.ALL,
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
    author_verdicts: AuthorVerdicts
    account_preferences: AccountPreferencesStore
    follows: Follows
    held_mentions: HeldMentions
    rule: VerdictRule = by_operator_verdict

    def __call__(self, events: Sequence[Event]) -> ModerationFacts:
        """Read the facts for a batch of events. Raises StoreUnavailable."""
        accounts = self.directory.accounts({user for event in events for user in (event.author, *event.mentioned)})
        mentioned = {account.member for event in events for user in event.mentioned if (account := accounts.get(user))}
        account_preferences = self.account_preferences.read_current(mentioned)
        author_verdicts = self.author_verdicts.read_current({event.author for event in events})
        return ModerationFacts(
            accounts=accounts,
            author_verdicts=author_verdicts,
            account_preferences=account_preferences,
            follow_pairs=self._read_follow_pairs(events, accounts, account_preferences),
            # Only mentions by an author with a verdict are held. A lifted verdict still has a row, with ALL.
            held_mentions=self._read_held_mentions([event for event in events if event.author in author_verdicts]),
            rule=self.rule,
        )

    def _read_held_mentions(self, events: Sequence[Event]) -> Mapping[EventId, HeldMention]:
        ids = {event.id.id for event in events}
        return {held.id: held for held in self.held_mentions.by_event_id(ids)} if ids else {}

    def _read_follow_pairs(
        self,
        events: Sequence[Event],
        accounts: Mapping[UserId, DirectoryEntry],
        account_preferences: Mapping[Member, AccountPreferences],
    ) -> Collection[SubjectAndMember]:
        pairs = {
            _follow_pair(event, account)
            for event in events
            for user in event.mentioned
            if (account := accounts.get(user))
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


def _follow_pair(event: Event, account: DirectoryEntry) -> SubjectAndMember:
    """Return the key of the account's follow of the author."""
    return Subject(Kind.MENTION, event.author), account.member
