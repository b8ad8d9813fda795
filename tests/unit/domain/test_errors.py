"""The tree of errors: drawn as it is, with a code and a sentence for each."""

import inspect
import re

import pytest

from notifier.domain import errors
from notifier.domain.errors import NotifierError, StoreUnavailable

CLASSES: dict[str, type[NotifierError]] = {
    name: kind for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, NotifierError)
}
TREE = (errors.__doc__ or "").partition("\n\n")[2]


def drawn() -> dict[str, str]:
    """Each class of the drawing with the one above it."""
    found, above = {"NotifierError": "Exception"}, ["NotifierError"]
    for line in TREE.splitlines()[1:]:
        branch, _, names = line.partition("── ")
        below = above[: len(branch) // 4 + 1]
        for name in re.findall(r"[A-Z]\w+(?=  |$)", names):
            found[name] = below[-1]
            above = [*below, name]
    return found


def test_the_drawing_names_every_class_under_its_parent() -> None:
    assert drawn() == {name: kind.__bases__[0].__name__ for name, kind in CLASSES.items()}


def test_the_drawing_names_no_class_twice() -> None:
    words = re.findall(r"\b[A-Z]\w+", re.sub(r"\(.*?\)|  +[a-z].*", "", TREE))
    assert sorted(words) == sorted(set(words))


def test_every_code_is_one_error_s_own() -> None:
    codes = [kind.code for kind in CLASSES.values()]
    assert sorted(codes) == sorted(set(codes))
    assert all("code" in vars(kind) and re.fullmatch("[a-z_]+", kind.code) for kind in CLASSES.values())


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_an_error_s_docstring_is_its_message(name: str) -> None:
    error = CLASSES[name]("The detail.")
    assert isinstance(error, NotifierError)
    assert vars(CLASSES[name])["__doc__"]
    assert str(error) == f"{error.title} The detail."
    assert error.title.endswith(".")


def test_without_a_detail_the_message_is_the_title() -> None:
    assert str(StoreUnavailable()) == "The durable store doesn't answer right now."
