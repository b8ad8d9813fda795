"""What an alert says, in the languages that phones are set to: whole sentences, as no two build one alike."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

ENGLISH = "en"
LONGEST_TAG = 35
"""Characters, as RFC 5646 reckons; an app may call anything a locale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """None needs a plural, or to know who is a woman: a count stands alone, and a name is never declined."""

    mention: str
    mention_you: str
    away: str
    away_you: str


PHRASES: Mapping[str, Phrases] = {
    "ar": Phrases(
        # Names are isolated: one in Latin letters, or with a bracket, would turn the sentence round.
        mention="أشار \u2068{who}\u2069 إلى \u2068{whom}\u2069",
        mention_you="أشار إليك \u2068{who}\u2069",
        away="أثناء غيابك: {count} عن \u2068{whom}\u2069",
        away_you="أثناء غيابك: {count} عنك",
    ),
    "de": Phrases(
        mention="{who} hat {whom} erwähnt",
        mention_you="{who} hat dich erwähnt",
        away="Während du weg warst: {count} über {whom}",
        away_you="Während du weg warst: {count} über dich",
    ),
    ENGLISH: Phrases(
        mention="{who} mentioned {whom}",
        mention_you="{who} mentioned you",
        away="While you were away: {count} about {whom}",
        away_you="While you were away: {count} about you",
    ),
    "es": Phrases(
        mention="{who} mencionó a {whom}",
        mention_you="{who} te mencionó",
        away="Mientras no estabas: {count} sobre {whom}",
        away_you="Mientras no estabas: {count} sobre ti",
    ),
    "fr": Phrases(
        mention="{who} a parlé de {whom}",
        mention_you="{who} a parlé de vous",
        away="Pendant votre absence : {count} sur {whom}",
        away_you="Pendant votre absence : {count} sur vous",
    ),
    "hi": Phrases(
        mention="{who} ने {whom} का उल्लेख किया",
        mention_you="{who} ने आपका उल्लेख किया",
        away="आपकी अनुपस्थिति में: {whom} के बारे में {count}",
        away_you="आपकी अनुपस्थिति में: आपके बारे में {count}",
    ),
    "it": Phrases(
        mention="{who} ha menzionato {whom}",
        mention_you="{who} ti ha menzionato",
        away="Mentre non c'eri: {count} su {whom}",
        away_you="Mentre non c'eri: {count} su di te",
    ),
    "ja": Phrases(
        mention="{who}さんが{whom}さんをメンションしました",
        mention_you="{who}さんがあなたをメンションしました",
        away="不在の間に：{whom}さんについて{count}件",
        away_you="不在の間に：あなたについて{count}件",
    ),
    "ko": Phrases(
        mention="{who}님이 {whom}님을 언급했습니다",
        mention_you="{who}님이 회원님을 언급했습니다",
        away="자리를 비운 사이: {whom}님 관련 {count}건",
        away_you="자리를 비운 사이: 회원님 관련 {count}건",
    ),
    "pt": Phrases(
        mention="{who} mencionou {whom}",
        mention_you="{who} mencionou você",
        away="Enquanto você esteve fora: {count} sobre {whom}",
        away_you="Enquanto você esteve fora: {count} sobre você",
    ),
    "tr": Phrases(
        mention="{who}, {whom} hesabından bahsetti",
        mention_you="{who} senden bahsetti",
        away="Sen yokken: {whom} hakkında {count}",
        away_you="Sen yokken: senin hakkında {count}",
    ),
    "zh": Phrases(
        mention="{who} 提到了 {whom}",
        mention_you="{who} 提到了你",
        away="你离开期间：{count} 条关于 {whom}",
        away_you="你离开期间：{count} 条关于你",
    ),
    "zh-hant": Phrases(
        mention="{who} 提到了 {whom}",
        mention_you="{who} 提到了你",
        away="你離開期間：{count} 則關於 {whom}",
        away_you="你離開期間：{count} 則關於你",
    ),
}
"""By language, in small letters."""

_SCRIPTS = {"zh-tw": "zh-hant", "zh-hk": "zh-hant", "zh-mo": "zh-hant"}
"""Where a place says which script is read there."""


@lru_cache(maxsize=1_024)
def language_of(locale: str) -> str:
    """Of those that are spoken here: the locale's own, that of its script, its language, or English.

    As RFC 4647 looks up: from the right one part after another is left out.
    """
    tag = locale[:LONGEST_TAG].lower().replace("_", "-")
    while tag:
        if (spoken := _SCRIPTS.get(tag, tag)) in PHRASES:
            return spoken
        tag = tag.rpartition("-")[0]
    return ENGLISH


# Graphemes: what a person takes for one character, which may be many code points; where a text may be cut.
#
# The rules of Unicode's annex 29 that matter where names are written, without its tables: whoever cuts between two of
# these never cuts a letter from its marks, a syllable in two, a flag, or a family of emoji.

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
