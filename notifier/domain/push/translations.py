"""Texts of alerts by language, and how to shorten them."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

ENGLISH = "en"
MAX_TAG_LENGTH = 35
"""Maximum number of characters of a language tag, as RFC 5646 advises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """Alert texts of one language.

    They need no plurals, genders or declensions: counts stand without a noun, and names are never inflected.
    """

    mention: str
    """A mention of an account that the recipient follows."""
    mention_of_you: str
    """A mention of the recipient."""
    summary: str
    """A summary of late alerts about an account that the recipient follows."""
    summary_of_you: str
    """A summary of late alerts about the recipient."""


PHRASES_BY_LANGUAGE: Mapping[str, Phrases] = {
    "ar": Phrases(
        # Names are wrapped in directional isolates: Latin letters or brackets would reorder the sentence.
        mention="أشار \u2068{who}\u2069 إلى \u2068{whom}\u2069",
        mention_of_you="أشار إليك \u2068{who}\u2069",
        summary="أثناء غيابك: {count} عن \u2068{whom}\u2069",
        summary_of_you="أثناء غيابك: {count} عنك",
    ),
    "de": Phrases(
        mention="{who} hat {whom} erwähnt",
        mention_of_you="{who} hat dich erwähnt",
        summary="Während du weg warst: {count} über {whom}",
        summary_of_you="Während du weg warst: {count} über dich",
    ),
    ENGLISH: Phrases(
        mention="{who} mentioned {whom}",
        mention_of_you="{who} mentioned you",
        summary="While you were away: {count} about {whom}",
        summary_of_you="While you were away: {count} about you",
    ),
    "es": Phrases(
        mention="{who} mencionó a {whom}",
        mention_of_you="{who} te mencionó",
        summary="Mientras no estabas: {count} sobre {whom}",
        summary_of_you="Mientras no estabas: {count} sobre ti",
    ),
    "fr": Phrases(
        mention="{who} a parlé de {whom}",
        mention_of_you="{who} a parlé de vous",
        summary="Pendant votre absence : {count} sur {whom}",
        summary_of_you="Pendant votre absence : {count} sur vous",
    ),
    "hi": Phrases(
        mention="{who} ने {whom} का उल्लेख किया",
        mention_of_you="{who} ने आपका उल्लेख किया",
        summary="आपकी अनुपस्थिति में: {whom} के बारे में {count}",
        summary_of_you="आपकी अनुपस्थिति में: आपके बारे में {count}",
    ),
    "it": Phrases(
        mention="{who} ha menzionato {whom}",
        mention_of_you="{who} ti ha menzionato",
        summary="Mentre non c'eri: {count} su {whom}",
        summary_of_you="Mentre non c'eri: {count} su di te",
    ),
    "ja": Phrases(
        mention="{who}さんが{whom}さんをメンションしました",
        mention_of_you="{who}さんがあなたをメンションしました",
        summary="不在の間に：{whom}さんについて{count}件",
        summary_of_you="不在の間に：あなたについて{count}件",
    ),
    "ko": Phrases(
        mention="{who}님이 {whom}님을 언급했습니다",
        mention_of_you="{who}님이 회원님을 언급했습니다",
        summary="자리를 비운 사이: {whom}님 관련 {count}건",
        summary_of_you="자리를 비운 사이: 회원님 관련 {count}건",
    ),
    "pt": Phrases(
        mention="{who} mencionou {whom}",
        mention_of_you="{who} mencionou você",
        summary="Enquanto você esteve fora: {count} sobre {whom}",
        summary_of_you="Enquanto você esteve fora: {count} sobre você",
    ),
    "tr": Phrases(
        mention="{who}, {whom} hesabından bahsetti",
        mention_of_you="{who} senden bahsetti",
        summary="Sen yokken: {whom} hakkında {count}",
        summary_of_you="Sen yokken: senin hakkında {count}",
    ),
    "zh": Phrases(
        mention="{who} 提到了 {whom}",
        mention_of_you="{who} 提到了你",
        summary="你离开期间：{count} 条关于 {whom}",
        summary_of_you="你离开期间：{count} 条关于你",
    ),
    "zh-hant": Phrases(
        mention="{who} 提到了 {whom}",
        mention_of_you="{who} 提到了你",
        summary="你離開期間：{count} 則關於 {whom}",
        summary_of_you="你離開期間：{count} 則關於你",
    ),
}
"""Phrases by lowercase language tag."""

_TAG_WITH_SCRIPT = {"zh-tw": "zh-hant", "zh-hk": "zh-hant", "zh-mo": "zh-hant"}
"""Maps a tag with a region to the tag with the script that the region implies."""


@lru_cache(maxsize=1_024)
def language_of(locale: str) -> str:
    """Return the supported language that fits the locale best, or English.

    RFC 4647 lookup: subtags are removed from the right until a language is supported. A region may imply a script.
    """
    tag = locale[:MAX_TAG_LENGTH].lower().replace("_", "-")
    while tag:
        if (language := _TAG_WITH_SCRIPT.get(tag, tag)) in PHRASES_BY_LANGUAGE:
            return language
        tag = tag.rpartition("-")[0]
    return ENGLISH


# Graphemes: user-perceived characters, which may be several code points. A text may be cut between two graphemes.
#
# Implements the rules of Unicode annex 29 that matter for names, without its tables.

ELLIPSIS = "…"
_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F3FF + 1)
_FLAG_TAGS = range(0xE0020, 0xE007F + 1)
"""Tag characters: they follow a black flag and spell the flag of a region."""
_REGIONAL_INDICATORS = range(0x1F1E6, 0x1F1FF + 1)
"""Two of these are a country's flag."""
_HANGUL_VOWELS_AND_TAILS = range(0x1160, 0x11FF + 1)
"""Belong to the preceding letter in decomposed Korean text."""
_VIRAMA = 9
"""Combining class of viramas: they join the preceding consonant with the following one."""
_NON_JOINER = "\u200c"


def graphemes(text: str) -> Iterator[str]:
    """Yield the graphemes of the text, in order."""
    start, indicators = 0, 0
    for index in range(1, len(text)):
        indicators = indicators + 1 if ord(text[index - 1]) in _REGIONAL_INDICATORS else 0
        if not _extends(text[index], text[index - 1], indicators):
            yield text[start:index]
            start = index
    if text:
        yield text[start:]


def shortened(text: str, max_size: int, size: Callable[[str], int]) -> str:
    """Return the text, cut to a size of at most `max_size` including an ellipsis; empty if no ellipsis fits.

    `size` may count bytes; the size of a text must be the sum of the sizes of its parts.
    """
    if size(text) <= max_size:
        return text
    room = max_size - size(ELLIPSIS)
    if room < 0:
        return ""
    kept = 0
    for grapheme in graphemes(text):
        if (room := room - size(grapheme)) < 0:
            break
        kept += len(grapheme)
    return text[:kept].rstrip() + ELLIPSIS


def _extends(char: str, previous: str, indicators: int) -> bool:
    """Return whether `char` belongs to the same grapheme as the previous character.

    `indicators` is the number of consecutive regional indicators that end with `previous`.
    """
    code = ord(char)
    if code < 0x300:  # most text: of these characters, only \n after \r extends another
        return char == "\n" and previous == "\r"
    if previous in ("\r", "\n"):
        return False
    return (
        unicodedata.category(char) in ("Mn", "Mc", "Me")
        or char in (_JOINER, _NON_JOINER)
        or previous == _JOINER
        or code in _SKIN_TONES
        or code in _FLAG_TAGS
        or code in _HANGUL_VOWELS_AND_TAILS
        or (code in _REGIONAL_INDICATORS and indicators % 2 == 1)
        or (unicodedata.combining(previous) == _VIRAMA and unicodedata.category(char) == "Lo")
    )
