"""A VIP viewer's facts, with a value of every kind."""

from datetime import UTC, datetime

from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark, Marks, Viewer
from notifier.ports.inbox_cache_freshness import ALL_MEMBERS, RememberedViewer, member_scope

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
KIM = UserId("kim")
MEMBER = Member(7)
NOVA = Subject(Kind.MENTION, UserId("nova"))
REMEMBERED = RememberedViewer(
    viewer=Viewer(
        user=KIM,
        follows={NOVA: NOW},
        blocked=frozenset({UserId("eve")}),
        volume={NOVA: Volume.FIRST},
        marks=Marks(
            seen_at=NOW,
            also_seen=frozenset({BurstKey(NOVA, 2)}),
            by_burst={BurstKey(NOVA, 1): Mark.HIDDEN},
        ),
    ),
    member=MEMBER,
    versions={member_scope(MEMBER): "v1", ALL_MEMBERS: "v2"},
    read_at=NOW,
)
