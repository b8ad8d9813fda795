"""The import contracts in pyproject.toml forget no room of the house and no library."""

import re
import sys
from importlib.metadata import packages_distributions
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repo.sources import PRODUCT, ROOT, modules, pyproject

# Not layers: the doors of the package.
WITHOUT_LAYER = {"__init__", "__main__"}


def test_every_room_of_the_house_has_a_layer() -> None:
    layers = " ".join(contract("layers")["layers"])
    named = set(re.findall(r"notifier\.(\w+)", layers))
    rooms = {path.stem for path in (ROOT / "notifier").iterdir() if path.suffix == ".py" or any(path.rglob("*.py"))}
    assert rooms - WITHOUT_LAYER <= named


def test_the_import_contracts_see_every_folder() -> None:
    """import-linter passes over a folder without `__init__.py`, and so does the build."""
    folders = {(ROOT / module.path).parent for module in modules(*PRODUCT)}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_every_library_is_kept_out_of_the_decisions() -> None:
    project = pyproject()["project"]
    wanted = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    libraries = {
        package
        for package, distributions in packages_distributions().items()
        if wanted & {canonicalize_name(name) for name in distributions}
    }
    missing = libraries - set(contract("forbidden")["forbidden_modules"])
    assert {package for package in missing if not package.startswith("_")} == set()


def test_the_client_needs_nothing_but_python() -> None:
    imported = {name.partition(".")[0] for module in modules("notifier/client") for name in module.imports()}
    assert imported - {"notifier"} <= sys.stdlib_module_names


def contract(kind: str) -> dict[str, Any]:
    [found] = [
        each
        for each in pyproject()["tool"]["importlinter"]["contracts"]
        if each["type"] == kind and "containers" not in each and "tests" not in each.get("forbidden_modules", ())
    ]
    return dict(found)
