"""Reads the manifests in k8s/: objects, kustomizations and the objects of each role."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from notifier.cli.supervisor.role_processes import ROLES
from tests.repo.repository_files import ROOT

BASE = ROOT / "k8s" / "base"
OVERLAYS = ROOT / "k8s" / "overlays"
KUSTOMIZATION = "kustomization.yaml"
WORKLOADS = {**dict.fromkeys(ROLES, "Deployment"), "migrate": "Job"}
"""Kind of the workload of each role of `notifier up`, and of the job that runs before them."""
COMMANDS = {**ROLES, "migrate": ("migrate", "--phase", "pre")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A file with exactly one object."""

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
        [container] = self.pod["containers"]
        return dict(container)


@cache
def base() -> tuple[Manifest, ...]:
    """Return every object of the base; raises ValueError if a file holds several."""
    return tuple(manifest(path) for path in sorted(BASE.rglob("*.yaml")) if path.name != KUSTOMIZATION)


def manifest(path: Path) -> Manifest:
    [content] = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    return Manifest(path=path, content=content)


def kustomization(folder: Path) -> Mapping[str, Any]:
    return manifest(folder / KUSTOMIZATION).content


def find_manifest(kind: str, name: str) -> Manifest:
    [match] = [manifest_ for manifest_ in base() if (manifest_.kind, manifest_.name) == (kind, name)]
    return match


def workload(role: str) -> Manifest:
    return find_manifest(WORKLOADS[role], object_name(role))


def object_name(role: str) -> str:
    """Return the name of the role's objects. Pod names are host names, which have no dots."""
    return f"notifier-{component(role)}"


def component(role: str) -> str:
    return role.replace(".", "-")
