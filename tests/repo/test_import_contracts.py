"""The import contracts in pyproject.toml cover every package and every library."""

import re
import sys
from importlib.metadata import packages_distributions
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repo.repository_files import PRODUCT, ROOT, modules, pyproject

# Entry points, not layers.
WITHOUT_LAYER = {"__init__", "__main__"}


def test_every_package_has_a_layer() -> None:
    layers = " ".join(contract("layers")["layers"])
    in_layers = set(re.findall(r"notifier\.(\w+)", layers))
    packages = {path.stem for path in (ROOT / "notifier").iterdir() if path.suffix == ".py" or any(path.rglob("*.py"))}
    assert packages - WITHOUT_LAYER <= in_layers


def test_every_folder_is_a_package() -> None:
    """import-linter skips a folder without `__init__.py`, and so does the build."""
    folders = {(ROOT / module.path).parent for module in modules(*PRODUCT)}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_every_library_is_forbidden_in_the_domain() -> None:
    project = pyproject()["project"]
    dependencies = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    libraries = {
        package
        for package, distributions in packages_distributions().items()
        if dependencies & {canonicalize_name(name) for name in distributions}
    }
    missing = libraries - set(contract("forbidden")["forbidden_modules"])
    assert {package for package in missing if not package.startswith("_")} == set()


def test_client_imports_only_the_standard_library() -> None:
    imported = {name.partition(".")[0] for module in modules("notifier/client") for name in module.imports()}
    assert imported - {"notifier"} <= sys.stdlib_module_names


def contract(kind: str) -> dict[str, Any]:
    [match] = [
        contract_
        for contract_ in pyproject()["tool"]["importlinter"]["contracts"]
        if contract_["type"] == kind
        and "containers" not in contract_
        and "tests" not in contract_.get("forbidden_modules", ())
    ]
    return dict(match)
