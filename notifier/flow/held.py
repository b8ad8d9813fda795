"""What is held, as it may be shown: without the text of what was taken back meanwhile."""

from collections.abc import Sequence
from dataclasses import replace

from notifier.domain.bursts.held_mention import Hold
from notifier.domain.bursts.mention import Event, Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.flow.settling import Settling


def as_they_stand(settling: Settling, holds: Sequence[Hold]) -> Sequence[Hold]:
    """Each with the text that its mentions have by now: none where all of them were taken back."""
    named = [(hold, account) for hold in holds if hold.event for account in hold.accounts]
    standing = settling.standing([_mention(hold.event, account) for hold, account in named if hold.event])
    texts = dict[str, str]()
    for (hold, _), mention in zip(named, standing, strict=True):
        texts[hold.key] = texts.get(hold.key) or mention.text
    return [replace(hold, event=hold.event and replace(hold.event, text=texts[hold.key])) for hold in holds]


def _mention(event: Event, account: UserId) -> Mention:
    return Mention.of(event, Subject(Kind.MENTION, account), Verdict.HOLD, lane=Lane.STANDARD, followers=0)
