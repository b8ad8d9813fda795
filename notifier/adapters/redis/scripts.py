"""The Lua scripts, read from their files."""

from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files

CHECKSUM = "checksum"
"""The file that precedes a script which reads or writes values."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script on one key. It returns an array: how much garbage it found and discarded, and behind it its answer.

    It may be sent twice: a server that has forgotten a script says so, and runs nothing.
    """

    text: str
    digest: str

    @classmethod
    def named(cls, *names: str) -> "Script":
        """Read a script from its files, in this order."""
        folder = files("notifier.adapters.redis") / "lua"
        text = "".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in names)
        return cls(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
