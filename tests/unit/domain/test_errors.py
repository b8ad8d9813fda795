"""Error tree: its drawing is complete, and every error has a code and a sentence."""

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
    """Return each class of the drawing with its parent."""
    parents, ancestors = {"NotifierError": "Exception"}, ["NotifierError"]
    for line in TREE.splitlines()[1:]:
        branch, _, names = line.partition("── ")
        path = ancestors[: len(branch) // 4 + 1]
        for name in re.findall(r"[A-Z]\w+(?=  |$)", names):
            parents[name] = path[-1]
            ancestors = [*path, name]
    return parents


def test_drawing_has_every_class_below_its_parent() -> None:
    assert drawn() == {name: kind.__bases__[0].__name__ for name, kind in CLASSES.items()}


def test_drawing_has_each_class_once() -> None:
    class_names = re.findall(r"\b[A-Z]\w+", re.sub(r"\(.*?\)|  +[a-z].*", "", TREE))
    assert sorted(class_names) == sorted(set(class_names))


def test_error_codes_are_unique() -> None:
    codes = [kind.code for kind in CLASSES.values()]
    assert sorted(codes) == sorted(set(codes))
    assert all("code" in vars(kind) and re.fullmatch("[a-z_]+", kind.code) for kind in CLASSES.values())


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_error_message_is_the_docstring_of_its_class(name: str) -> None:
    error = CLASSES[name]("The detail.")
    assert isinstance(error, NotifierError)
    assert vars(CLASSES[name])["__doc__"]
    assert str(error) == f"{error.title} The detail."
    assert error.title.endswith(".")


def test_error_message_without_detail_is_the_title() -> None:
    assert str(StoreUnavailable()) == "The durable store doesn't answer right now."
