"""A row as an object: a line of NDJSON."""

from typing import Any

import msgspec

from notifier.adapters.tables.layout import Found, Ignore, Layout, Unreadable

MOST_IGNORED = 64
"""Names; a file of which each line has others is read all the same."""


class Objects:
    """Reads lines, and tells of each member that nothing is read of once."""

    def __init__(self, layout: Layout[Any], ignore: Ignore) -> None:
        self._layout, self._ignore = layout, ignore
        self._ignored = list[str]()
        self._decode = self._decoder()

    def __call__(self, line: str) -> Found:
        try:
            found = self._decoded(line)
        except (msgspec.MsgspecError, UnicodeError) as error:
            return Unreadable(f"It is no JSON of {self._layout.of}: {error}.")
        row = msgspec.structs.astuple(found)[: len(self._layout.columns)]
        if msgspec.UNSET not in row:
            return row
        named = [name for name, value in zip(self._layout.columns, row, strict=True) if value is not msgspec.UNSET]
        if self._layout.any_of and not {*named}.intersection(self._layout.any_of):
            return Unreadable(f"It says nothing; {' or '.join(self._layout.any_of)} is needed.")
        return [None if value is msgspec.UNSET else value for value in row]

    def _decoded(self, line: str) -> Any:
        """A member that wasn't known makes a reader of its own, which passes over it: lines like this one are as quick
        as others from then on."""
        try:
            return self._decode(line)
        except msgspec.ValidationError:
            if not (new := self._unknown(line)):
                raise
        self._ignored += new
        self._ignore(self._layout.ignored(new))
        self._decode = self._decoder()
        return self._decode(line)

    def _unknown(self, line: str) -> list[str]:
        named = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        return [name for name in named if name not in self._layout.columns and name not in self._ignored]

    def _decoder(self) -> Any:
        ids: list[tuple[str, Any, Any]] = [
            (name, str | int | None | msgspec.UnsetType, msgspec.UNSET) for name in self._layout.needed
        ]
        others = str | int | bool | None | msgspec.UnsetType
        said: list[tuple[str, Any, Any]] = [(name, others, msgspec.UNSET) for name in self._layout.optional]
        passed: list[tuple[str, Any, Any]] = [
            (f"ignored_{n}", msgspec.Raw, msgspec.field(default=msgspec.Raw(), name=name))
            for n, name in enumerate(self._ignored)
        ]
        row = msgspec.defstruct("Row", [*ids, *said, *passed], forbid_unknown_fields=len(self._ignored) < MOST_IGNORED)
        return msgspec.json.Decoder(row).decode
