"""Modules are short, named after the domain, and begin with a docstring."""

import ast
import io
import re
import tokenize

from tests.repo.repository_files import CODE, Module, modules

MOST_LINES = 500
VAGUE_NAMES = {"base", "common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
IGNORE = re.compile(r"#\s*type:\s*ignore")
IGNORE_WITH_REASON = re.compile(r"#\s*type:\s*ignore\[[\w, -]+\]\s+#\s*\w+")


def test_module_has_at_most_500_lines() -> None:
    lengths = {module.path: len(module.text.splitlines()) for module in modules(*CODE)}
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


def test_module_begins_with_a_docstring() -> None:
    assert [module.path for module in modules(*CODE) if not first_line(module)] == []


def test_file_name_is_not_vague() -> None:
    parts = {module.path: set(re.split(r"[/_.]", module.path)) for module in modules(*CODE)}
    assert {path: parts_ for path, parts_ in parts.items() if parts_ & VAGUE_NAMES} == {}


def test_type_ignore_has_a_code_and_a_reason() -> None:
    without_reason = [
        f"{module.path}:{comment.start[0]}"
        for module in modules(*CODE)
        for comment in comments(module)
        if IGNORE.search(comment.string) and not IGNORE_WITH_REASON.search(comment.string)
    ]
    assert without_reason == []


def first_line(module: Module) -> str:
    return (ast.get_docstring(module.tree) or "").partition("\n")[0].strip()


def comments(module: Module) -> list[tokenize.TokenInfo]:
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    return [token for token in tokens if token.type == tokenize.COMMENT]
