"""One use of a Redis adapter: its writes, its questions, and how garbage under it is mended."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Ask = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    writes: Mapping[str, Callable[[], object]]
    """Each makes right what it concerns, whatever was there before, and changes nothing that is right."""
    asks: Mapping[str, Ask]
    """Each answers the same again, and on an empty server what an empty cache answers."""
    mend: Callable[[], object]
    """Makes everything right, as the running system does sooner or later."""

    def answers(self) -> dict[str, object]:
        return {name: ask() for name, ask in self.asks.items()}


def simple(writes: Mapping[str, Callable[[], object]], asks: Mapping[str, Ask]) -> Use:
    """Mended by the next writes."""

    def mend() -> None:
        for write in writes.values():
            write()

    return Use(writes=writes, asks=asks, mend=mend)
