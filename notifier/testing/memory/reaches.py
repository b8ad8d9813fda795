"""What operators said of mentioners in memory, with an audit that is a list."""

from collections.abc import Collection, Mapping, Sequence

from notifier.domain.bursts.moderation import ReachWord
from notifier.domain.ids import UserId


class MemoryReaches:
    def __init__(self) -> None:
        self._words: dict[UserId, ReachWord] = {}
        self.audit: list[ReachWord] = []

    def say(self, word: ReachWord) -> None:
        before = self._words.get(word.user)
        if before is None or word.at > before.at:
            self._words[word.user] = word
        self.audit.append(word)

    def standing(self, users: Collection[UserId]) -> Mapping[UserId, ReachWord]:
        return {user: self._words[user] for user in users if user in self._words}

    def listed(self) -> Sequence[ReachWord]:
        return sorted(self._words.values(), key=lambda word: word.user)
