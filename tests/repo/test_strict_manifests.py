"""Kubernetes would take the manifests: every object is as its schema says, and holds nothing that it doesn't know."""

from copy import deepcopy

import kubernetes_validate
import pytest

from tests.repo.manifests import OVERLAYS, Manifest, base, kustomization, manifest, workload

OLDEST = "1.34"
"""Since then everything that is used here is stable; the pause before a stop came last."""
VERSIONS = (OLDEST, kubernetes_validate.latest_version())
OF_OVERLAYS = [
    manifest(folder / name)
    for folder in sorted(OVERLAYS.iterdir())
    for name in kustomization(folder)["resources"]
    if name.endswith(".yaml")
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("each", [*base(), *OF_OVERLAYS], ids=lambda each: f"{each.kind}-{each.name}")
def test_an_object_is_what_kubernetes_takes(each: Manifest, version: str) -> None:
    kubernetes_validate.validate(each.content, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_word_that_kubernetes_does_not_know_is_refused(version: str) -> None:
    wrong = deepcopy(dict(workload("p2").content))
    wrong["spec"]["template"]["spec"]["terminationGraceSeconds"] = 75
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGraceSeconds"):
        kubernetes_validate.validate(wrong, version, strict=True)
