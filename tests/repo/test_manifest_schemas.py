"""The manifests are valid by the strict schemas of Kubernetes."""

from copy import deepcopy

import kubernetes_validate
import pytest

from tests.repo.manifests import OVERLAYS, Manifest, base, kustomization, manifest, workload

OLDEST = "1.34"
"""The first version in which everything used here is stable; the pre-stop sleep was the last."""
VERSIONS = (OLDEST, kubernetes_validate.latest_version())
OVERLAY_OBJECTS = [
    manifest(folder / name)
    for folder in sorted(OVERLAYS.iterdir())
    for name in kustomization(folder)["resources"]
    if name.endswith(".yaml")
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "manifest_", [*base(), *OVERLAY_OBJECTS], ids=lambda manifest_: f"{manifest_.kind}-{manifest_.name}"
)
def test_object_is_valid_for_kubernetes(manifest_: Manifest, version: str) -> None:
    kubernetes_validate.validate(manifest_.content, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_field_is_refused(version: str) -> None:
    invalid = deepcopy(dict(workload("p2").content))
    invalid["spec"]["template"]["spec"]["terminationGraceSeconds"] = 75
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGraceSeconds"):
        kubernetes_validate.validate(invalid, version, strict=True)
