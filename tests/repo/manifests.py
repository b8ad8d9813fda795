"""The manifests below k8s/ as their tests read them: objects by file, the kustomizations, who belongs to which role."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from notifier.cli.supervisor.processes import ROLES
from tests.repo.sources import ROOT

BASE = ROOT / "k8s" / "base"
OVERLAYS = ROOT / "k8s" / "overlays"
KUSTOMIZATION = "kustomization.yaml"
WORKLOADS = {**dict.fromkeys(ROLES, "Deployment"), "migrate": "Job"}
"""By role, under the names that `notifier up` has for them, and what runs before them."""
COMMANDS = {**ROLES, "migrate": ("migrate", "--phase", "pre")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One file with one object."""

    path: Path
    content: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.content["kind"])

    @property
    def name(self) -> str:
        return str(self.content["metadata"]["name"])

    @property
    def labels(self) -> Mapping[str, str]:
        return dict(self.content["metadata"]["labels"])

    @property
    def spec(self) -> Mapping[str, Any]:
        return dict(self.content["spec"])

    @property
    def pod(self) -> Mapping[str, Any]:
        return dict(self.spec["template"]["spec"])

    @property
    def container(self) -> Mapping[str, Any]:
        [only] = self.pod["containers"]
        return dict(only)


@cache
def base() -> tuple[Manifest, ...]:
    """Every object that is applied; raises ValueError where a file holds several."""
    return tuple(manifest(path) for path in sorted(BASE.rglob("*.yaml")) if path.name != KUSTOMIZATION)


def manifest(path: Path) -> Manifest:
    [content] = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    return Manifest(path=path, content=content)


def kustomization(folder: Path) -> Mapping[str, Any]:
    return manifest(folder / KUSTOMIZATION).content


def one(kind: str, name: str) -> Manifest:
    [found] = [each for each in base() if (each.kind, each.name) == (kind, name)]
    return found


def workload(role: str) -> Manifest:
    return one(WORKLOADS[role], called(role))


def called(role: str) -> str:
    """Its objects: a pod's name is the name of its host, which has no dots."""
    return f"notifier-{component(role)}"


def component(role: str) -> str:
    return role.replace(".", "-")
