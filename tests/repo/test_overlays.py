"""The overlays in k8s/overlays: patches have targets, and only known fields are used."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from notifier.cli.supervisor.role_processes import ROLES
from notifier.config import Settings
from tests.repo.manifests import BASE, KUSTOMIZATION, OVERLAYS, base, kustomization, manifest
from tests.repo.test_manifests import figure, memory

CHECKED_FIELDS = {"apiVersion", "kind", "namespace", "resources", "replicas", "patches"}
"""Fields of a kustomization that these tests check; others would be applied unchecked."""

for_each_overlay = pytest.mark.parametrize("overlay", sorted(OVERLAYS.iterdir()), ids=lambda folder: folder.name)


@for_each_overlay
def test_overlay_uses_only_checked_fields(overlay: Path) -> None:
    assert kustomization(overlay).keys() <= CHECKED_FIELDS
    assert kustomization(overlay)["kind"] == kustomization(BASE)["kind"] == "Kustomization"
    assert kustomization(overlay)["apiVersion"] == kustomization(BASE)["apiVersion"]


@for_each_overlay
def test_overlay_uses_all_of_its_files_and_no_others(overlay: Path) -> None:
    used = {(overlay / name).resolve() for name in [*kustomization(overlay)["resources"], *patch_targets(overlay)]}
    assert used == {BASE} | {path for path in overlay.glob("*.yaml") if path.name != KUSTOMIZATION}


@for_each_overlay
def test_overlay_sets_the_replicas_of_every_deployment(overlay: Path) -> None:
    scaled = [replica["name"] for replica in kustomization(overlay)["replicas"]]
    assert sorted(scaled) == sorted(manifest_.name for manifest_ in base() if manifest_.kind == "Deployment")


@for_each_overlay
def test_patch_targets_objects_and_containers_of_the_base(overlay: Path) -> None:
    for path, target in patch_targets(overlay).items():
        targets = [manifest_ for manifest_ in base() if manifest_.kind == target["kind"]]
        patch = manifest(overlay / path)
        assert targets
        assert target == {"kind": patch.kind}
        if patch.kind == "ConfigMap":
            Settings.read(patch.content["data"])
        else:
            names = {manifest_.container["name"] for manifest_ in targets}
            assert {container["name"] for container in patch.pod["containers"]} == names


def patch_targets(overlay: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the targets of the patches by file."""
    return {patch["path"]: patch["target"] for patch in kustomization(overlay)["patches"]}


def test_dev_namespace_enforces_minimal_privileges() -> None:
    dev = OVERLAYS / "dev"
    namespace = manifest(dev / "namespace.yaml")
    assert namespace.name == kustomization(dev)["namespace"]
    assert namespace.labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_dev_overlay_runs_one_pod_per_role_with_less_memory() -> None:
    dev = OVERLAYS / "dev"
    assert {replica["count"] for replica in kustomization(dev)["replicas"]} == {1}
    small = manifest(dev / "small-resources.yaml").container["resources"]
    requested, limit = (float(small[name]["memory"].removesuffix("M")) for name in ("requests", "limits"))
    assert all(requested < memory(role)[0] for role in ROLES)
    assert limit >= figure("worker_rss_mb")["limit"]
