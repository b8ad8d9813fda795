"""Code and documents are written in plain technical English: no dialect, short sentences, telling names."""

import ast
import inspect
import re
from collections.abc import Iterator

import pytest

from tests.repo.repository_files import CODE, ROOT, Module, documents, modules

PHRASES = {
    "a thing spoken of as a person": r"\b(?:whoever|whom|whomever)\b|\b(?:no|some|every|any)body\b",
    "archaic or translated": (
        r"\b(?:anew|for ever|thereof|therein|whence|the like|lest)\b|\bnor (?:is|are|does|do)\b|\balso where\b"
    ),
    "said, told, heard": (
        r"\b(?:is|are|was|were|be|been) (?:said|told|heard|spoken)\b|\b(?:says?|said|tells?|told) so\b"
        r"|\bwhat (?:was|is) said\b|\bthe last word\b"
    ),
    "inverted clause": r"\b(?:of|by) which\b|\bof (?:those|these) (?:that|who|alone)\b|\bof (?:it|them|him) alone\b",
}
"""Phrases that leave the reader to guess which thing is meant."""

FRAGMENT = re.compile(
    r"(?:Of|By|Who|Whoever|Whom|Whose|What|Those|As|Where|Also|Else|Behind|Beside|Unless|Until|While|Than|Neither) "
)
"""First words of a docstring that only continues the name above it."""

VAGUE = re.compile(
    r"_*(?:found|one|words?|said|told|heard|standing|piece|wish|some|rest|what|whom|each|behind|beside|others?|lot"
    r"|given|gone)_*"
)
"""Names that don't say what the thing is."""

ALLOWED = {
    # The text of an entry is the id of its event, and the results of seeds depend on it.
    ("tests/support/simulator/script.py", "what"),
    ("tests/support/simulator/script.py", "whom"),
}
"""Vague names that stay, by module."""

TEST_NAME = re.compile(r"test_(?!(?:who|whoever|whom|whose|what|of|where|that|those|nobody|somebody|everybody|it_is)_)")
LONGEST_TEST_NAME = 80
LONGEST_IN_CODE, LONGEST_IN_DOCUMENTS = 25, 30
"""Words of a sentence."""
LONGEST_PARAGRAPH = 5
"""Lines of a document."""
LONGEST_SUMMARY = 15
"""Words of a module's first docstring line."""

SENTENCE_END = re.compile(r"(?<=[.;:!?])\s+|\n\s*\n|\n\s*[-*]|[|├└│─►]")
NOT_PROSE = re.compile(r"`[^`]*`|\([^)]*\)|https?://\S+")
CODE_BLOCK = re.compile(r"```.*?```", flags=re.DOTALL)

each_folder = pytest.mark.parametrize("folder", CODE)


def phrases(text: str) -> Iterator[str]:
    """Yield each forbidden phrase of the text with its reason."""
    for reason, pattern in PHRASES.items():
        yield from (f"{reason}: {match[0]!r}" for match in re.finditer(pattern, text, flags=re.IGNORECASE))


def long_sentences(text: str, longest: int) -> Iterator[str]:
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("    "))  # without indented tables
    for sentence in SENTENCE_END.split(NOT_PROSE.sub("x", prose)):
        if len(sentence.split()) > longest:
            yield f"{len(sentence.split())} words in a sentence: {' '.join(sentence.split()[:8])}"


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every string that stands by itself: docstrings, also those of fields and constants."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield node.lineno, inspect.cleandoc(text)


STRING_OR_COMMENT = re.compile(
    r'"""(?:\\[\s\S]|[^\\])*?"""'
    r"|'''(?:\\[\s\S]|[^\\])*?'''"
    r'|"(?:\\[\s\S]|[^"\\\n])*"'
    r"|'(?:\\[\s\S]|[^'\\\n])*'"
    r"|#.*"
)
"""It finds comments in a tenth of the time that Python's tokenizer takes."""


def comments(text: str) -> Iterator[tuple[int, str]]:
    line, counted_to = 1, 0
    for match in STRING_OR_COMMENT.finditer(text):
        line, counted_to = line + text.count("\n", counted_to, match.start()), match.start()
        if match[0].startswith("#"):
            yield line, match[0].lstrip("# ")


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each name that the module defines: functions, parameters, variables and fields."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name


@each_folder
def test_code_is_plain_english(folder: str) -> None:
    wrong = [f"{module.path}:{line}: {problem}" for module in modules(folder) for line, problem in problems(module)]
    assert wrong == []


def problems(module: Module) -> Iterator[tuple[int, str]]:
    for line, text in docstrings(module.tree):
        if FRAGMENT.match(text.strip()):
            yield line, f"fragment of a sentence: {text.strip()[:60]!r}"
        yield from ((line, problem) for problem in (*phrases(text), *long_sentences(text, LONGEST_IN_CODE)))
    for line, text in comments(module.text):
        yield from ((line, problem) for problem in phrases(text))
    for line, name in names(module.tree):
        if VAGUE.fullmatch(name) and (module.path, name) not in ALLOWED:
            yield line, f"vague name: {name}"
        if name.startswith("test_") and (not TEST_NAME.match(name) or len(name) > LONGEST_TEST_NAME):
            yield line, f"name of a test: {name}"


@each_folder
def test_module_has_a_short_summary(folder: str) -> None:
    summaries = {module.path: (ast.get_docstring(module.tree) or "").partition("\n")[0] for module in modules(folder)}
    assert {path: text for path, text in summaries.items() if len(text.split()) > LONGEST_SUMMARY} == {}


def test_documents_are_plain_english() -> None:
    wrong = []
    for document in documents():
        text = CODE_BLOCK.sub(lambda block: "\n" * block[0].count("\n"), document.read_text(encoding="utf-8"))
        for paragraph in re.finditer(r"(?:.+\n?)+", text):
            line = text.count("\n", 0, paragraph.start()) + 1
            where = f"{document.relative_to(ROOT).as_posix()}:{line}"
            wrong += [f"{where}: {problem}" for problem in problems_of_prose(paragraph[0])]
    assert wrong == []


def problems_of_prose(paragraph: str) -> Iterator[str]:
    yield from phrases(paragraph)
    yield from long_sentences(paragraph, LONGEST_IN_DOCUMENTS)
    lines = paragraph.count("\n")
    if paragraph.lstrip()[0].isalpha() and lines > LONGEST_PARAGRAPH:
        yield f"{lines} lines in a paragraph"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Whoever comes first wins.", "a thing spoken of as a person"),
        ("It begins anew.", "archaic or translated"),
        ("The latest was told.", "said, told, heard"),
        ("A list of which the first counts.", "inverted clause"),
    ],
)
def test_phrase_is_found(text: str, reason: str) -> None:
    assert [problem.partition(":")[0] for problem in phrases(text)] == [reason]


def test_problems_of_code_are_found() -> None:
    text = '''"""Of a module."""
def test_what_is_it(found): # for nobody
    pass
'''
    module = Module(path="example.py", text=text)
    assert [line for line, _ in problems(module)] == [1, 2, 2, 2]
