"""The overlays below k8s/overlays: every patch finds its objects, and nothing is said that nobody looked at."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from notifier.cli.supervisor.processes import ROLES
from notifier.config import Settings
from tests.repo.manifests import BASE, KUSTOMIZATION, OVERLAYS, base, kustomization, manifest
from tests.repo.test_manifests import figure, memory

UNDERSTOOD = {"apiVersion", "kind", "namespace", "resources", "replicas", "patches"}
"""Of a kustomization; what is not here would be applied without having been looked at."""

each_overlay = pytest.mark.parametrize("overlay", sorted(OVERLAYS.iterdir()), ids=lambda folder: folder.name)


@each_overlay
def test_an_overlay_says_nothing_that_is_not_looked_at_here(overlay: Path) -> None:
    assert kustomization(overlay).keys() <= UNDERSTOOD
    assert kustomization(overlay)["kind"] == kustomization(BASE)["kind"] == "Kustomization"
    assert kustomization(overlay)["apiVersion"] == kustomization(BASE)["apiVersion"]


@each_overlay
def test_every_file_of_an_overlay_is_used_and_every_file_that_it_uses_is_there(overlay: Path) -> None:
    used = {(overlay / name).resolve() for name in [*kustomization(overlay)["resources"], *patched(overlay)]}
    assert used == {BASE} | {path for path in overlay.glob("*.yaml") if path.name != KUSTOMIZATION}


@each_overlay
def test_what_an_overlay_counts_is_a_deployment_of_the_base(overlay: Path) -> None:
    counted = [each["name"] for each in kustomization(overlay)["replicas"]]
    assert sorted(counted) == sorted(each.name for each in base() if each.kind == "Deployment")


@each_overlay
def test_a_patch_finds_objects_and_containers_of_the_base(overlay: Path) -> None:
    for path, target in patched(overlay).items():
        found = [each for each in base() if each.kind == target["kind"]]
        patch = manifest(overlay / path)
        assert found
        assert target == {"kind": patch.kind}
        if patch.kind == "ConfigMap":
            Settings.read(patch.content["data"])
        else:
            names = {each.container["name"] for each in found}
            assert {each["name"] for each in patch.pod["containers"]} == names


def patched(overlay: Path) -> Mapping[str, Mapping[str, Any]]:
    """The targets by file."""
    return {each["path"]: each["target"] for each in kustomization(overlay)["patches"]}


def test_the_namespace_for_trials_lets_no_pod_do_more_than_it_needs() -> None:
    dev = OVERLAYS / "dev"
    namespace = manifest(dev / "namespace.yaml")
    assert namespace.name == kustomization(dev)["namespace"]
    assert namespace.labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_for_trials_there_is_one_of_each_that_asks_for_less_and_may_have_enough() -> None:
    dev = OVERLAYS / "dev"
    assert {each["count"] for each in kustomization(dev)["replicas"]} == {1}
    small = manifest(dev / "small.yaml").container["resources"]
    asked, limit = (float(small[name]["memory"].removesuffix("M")) for name in ("requests", "limits"))
    assert all(asked < memory(role)[0] for role in ROLES)
    assert limit >= figure("worker_rss_mb")["limit"]
