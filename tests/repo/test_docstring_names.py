"""Docstrings and comments explain names that exist."""

import re
from functools import cache

import pytest

from tests.repo.repository_files import CODE, Module, modules
from tests.repo.test_plain_english import comments, docstrings

EXPLAINED = re.compile(
    r"`([a-z_]\w*)`(?=:| (?:is|are|has|limits|returns|says|maps|must|may|runs|gets|yields|counts|receives|takes|lists"
    r"|names|holds|contains|reads|writes|converts|decides|tells)\b)"
)
"""A name and what it does: a parameter or field, as a rule."""

CONSTANT = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
NAME = re.compile(r"\w+")
DOCSTRING_OR_COMMENT = re.compile(r'"""[\s\S]*?"""|#.*')

OUTSIDE = {
    *("notifier", "up", "fcm", "vip", "volume", "push", "pt_BR", "u0"),  # commands, and values of requests and files
    *("snapshot", "off", "buffer_memory"),  # states that another module defines, and an option of a library
    *("EX_SOFTWARE", "TIME_WAIT", "READY_FILE"),  # of the operating system, and an argument of a command line
}
"""Explained names that no module defines."""


def explanations(module: Module) -> list[tuple[int, str]]:
    return [*docstrings(module.tree), *comments(module.text)]


@cache
def code_names(module: Module) -> set[str]:
    """Return all words of the module outside of docstrings and comments."""
    return {*NAME.findall(DOCSTRING_OR_COMMENT.sub("", module.text))}


@pytest.mark.parametrize("folder", CODE)
def test_explained_name_is_in_the_module(folder: str) -> None:
    stale = [
        f"{module.path}:{line}: `{name}`"
        for module in modules(folder)
        for line, text in explanations(module)
        for name in EXPLAINED.findall(text)
        if name not in OUTSIDE and name not in code_names(module)
    ]
    assert stale == []


def test_explained_constant_exists() -> None:
    all_modules = [module for folder in CODE for module in modules(folder)]
    defined = OUTSIDE.union(*map(code_names, all_modules))
    stale = [
        f"{module.path}:{line}: {name}"
        for module in all_modules
        for line, text in explanations(module)
        for name in CONSTANT.findall(text)
        if name not in defined
    ]
    assert stale == []


def test_stale_name_is_found() -> None:
    text = 'def send(limit: int) -> None:\n    """Send. `most` is the largest number."""\n'
    module = Module(path="example.py", text=text)
    [(_, docstring)] = docstrings(module.tree)
    assert EXPLAINED.findall(docstring) == ["most"]
    assert "most" not in code_names(module)
