"""Graphemes: what a person takes for one character, which may be many code points; where a text may be cut.

The rules of Unicode's annex 29 that matter where names are written, without its tables: whoever cuts between two of
these never cuts a letter from its marks, a syllable in two, a flag, or a family of emoji.
"""

import unicodedata
from collections.abc import Callable, Iterator

ELLIPSIS = "…"
_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F3FF + 1)
_TAGS = range(0xE0020, 0xE007F + 1)
"""Spell the flag of a region behind a black one."""
_REGIONAL = range(0x1F1E6, 0x1F1FF + 1)
"""Two of them are a country's flag."""
_HANGUL_VOWELS_AND_TAILS = range(0x1160, 0x11FF + 1)
"""Belong to the consonant before them, where Korean is written letter by letter."""
_VIRAMA = 9
"""Combining class: joins the consonant before it with the one behind it."""
_NON_JOINER = "\u200c"


def graphemes(text: str) -> Iterator[str]:
    """One after another; joined they are the text."""
    begun, flags = 0, 0
    for place in range(1, len(text)):
        flags = flags + 1 if ord(text[place - 1]) in _REGIONAL else 0
        if not _belongs(text[place], text[place - 1], flags):
            yield text[begun:place]
            begun = place
    if text:
        yield text[begun:]


def shortened(text: str, most: int, size: Callable[[str], int]) -> str:
    """The text, or as much of its beginning as has no larger size than that, with an ellipsis behind it.

    `size` may be of bytes; that of a whole must be the sum of its parts. Empty where not even the ellipsis fits.
    """
    if size(text) <= most:
        return text
    room = most - size(ELLIPSIS)
    if room < 0:
        return ""
    kept = 0
    for one in graphemes(text):
        if (room := room - size(one)) < 0:
            break
        kept += len(one)
    return text[:kept].rstrip() + ELLIPSIS


def _belongs(char: str, before: str, flags: int) -> bool:
    """Whether nothing may come between the two. `flags`: regional letters in a row that end with the one before."""
    code = ord(char)
    if code < 0x300:  # most of what is written: none of these belongs to another
        return char == "\n" and before == "\r"
    if before in ("\r", "\n"):
        return False
    return (
        unicodedata.category(char) in ("Mn", "Mc", "Me")
        or char in (_JOINER, _NON_JOINER)
        or before == _JOINER
        or code in _SKIN_TONES
        or code in _TAGS
        or code in _HANGUL_VOWELS_AND_TAILS
        or (code in _REGIONAL and flags % 2 == 1)
        or (unicodedata.combining(before) == _VIRAMA and unicodedata.category(char) == "Lo")
    )
