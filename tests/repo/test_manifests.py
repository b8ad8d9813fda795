"""The manifests in k8s/base agree with the code: roles, commands, settings, probes and memory."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from notifier.cli.supervisor.heartbeat import MAX_SILENCE_SECONDS, START_TIMEOUT_SECONDS, standalone_heartbeat_file
from notifier.cli.supervisor.pid_files import pid_files_of
from notifier.cli.supervisor.role_processes import ROLES
from notifier.config import Settings, setting_entries
from notifier.domain.delivery.slice_and_pool import TIME_SHARE, Pool
from tests.docs.command_line_check import check_command
from tests.repo.manifests import (
    BASE,
    COMMANDS,
    WORKLOADS,
    base,
    component,
    find_manifest,
    kustomization,
    object_name,
    workload,
)
from tests.repo.repository_files import ROOT, pyproject
from tests.support.in_memory_http_api import MemoryBackend
from workers.slice_runner_and_pools import POOLS

DEPLOYMENT_KINDS = {"Deployment", "PodDisruptionBudget", "ServiceAccount"}
MEGABYTE = 1_000_000
BYTES_PER_STREAM = 10_000

for_each_role = pytest.mark.parametrize("role", WORKLOADS)
for_each_pool = pytest.mark.parametrize("role", [str(pool) for pool in Pool])
for_each_deployment = pytest.mark.parametrize(
    "role", [role for role, kind in WORKLOADS.items() if kind == "Deployment"]
)


def settings() -> Mapping[str, str]:
    return dict(find_manifest("ConfigMap", "notifier").content["data"])


def probes(role: str) -> Mapping[str, Mapping[str, Any]]:
    return {name: probe for name, probe in workload(role).container.items() if name.endswith("Probe")}


def test_every_role_has_its_objects_and_there_are_no_others() -> None:
    kinds = {
        folder.name: {manifest_.kind for manifest_ in base() if manifest_.path.parent == folder} for folder in folders()
    }
    assert kinds == {
        **dict.fromkeys(map(component, ROLES), DEPLOYMENT_KINDS),
        "api": {*DEPLOYMENT_KINDS, "Service"},
        "migrate": {"Job", "ServiceAccount"},
    }


def folders() -> list[Path]:
    return [path for path in BASE.iterdir() if path.is_dir()]


def test_kustomization_lists_every_file_once() -> None:
    listed = kustomization(BASE)["resources"]
    assert sorted(listed) == sorted(manifest_.path.relative_to(BASE).as_posix() for manifest_ in base())


def test_files_are_named_by_kind_and_objects_by_role() -> None:
    for manifest_ in base():
        if manifest_.path.parent != BASE:
            assert re.sub("(?<=[a-z])(?=[A-Z])", "-", manifest_.kind).lower() == manifest_.path.stem
            assert manifest_.name == f"notifier-{manifest_.path.parent.name}"
            assert manifest_.labels["app.kubernetes.io/component"] == manifest_.path.parent.name
        assert manifest_.labels["app.kubernetes.io/name"] == "notifier"


@for_each_deployment
def test_selectors_match_exactly_the_pods_of_a_role(role: str) -> None:
    labels = workload(role).spec["template"]["metadata"]["labels"]
    assert labels == workload(role).labels
    assert workload(role).spec["selector"]["matchLabels"] == labels
    assert find_manifest("PodDisruptionBudget", object_name(role)).spec["selector"]["matchLabels"] == labels
    [spread] = workload(role).pod["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels


def test_service_targets_the_port_of_the_api() -> None:
    service = find_manifest("Service", "notifier-api").spec
    assert service["selector"] == workload("api").labels
    [port], [container_port] = service["ports"], workload("api").container["ports"]
    assert port["targetPort"] == container_port["name"]
    assert str(container_port["containerPort"]) == settings()["NOTIFIER_PORT"]


@for_each_role
def test_role_is_started_with_its_command_of_up(role: str) -> None:
    container = workload(role).container
    assert tuple(container["args"]) == COMMANDS[role]
    assert "command" not in container  # the image's entrypoint is `notifier`
    check_command(container["args"])


@for_each_role
def test_every_role_runs_the_image_of_this_version(role: str) -> None:
    assert workload(role).container["image"] == f"notifier:{pyproject()['project']['version']}"


@for_each_role
def test_pod_has_minimal_privileges(role: str) -> None:
    pod, container = workload(role).pod, workload(role).container
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["serviceAccountName"] == object_name(role)
    assert pod["automountServiceAccountToken"] is False
    assert find_manifest("ServiceAccount", object_name(role)).content["automountServiceAccountToken"] is False


@for_each_role
def test_service_links_are_disabled(role: str) -> None:
    """Kubernetes would otherwise set NOTIFIER_PORT=tcp://10.0.0.7:80 for a Service `notifier` on port 80."""
    assert workload(role).pod["enableServiceLinks"] is False


@for_each_role
def test_writable_folders_are_mounted_beside_the_read_only_root(role: str) -> None:
    mounts = workload(role).container["volumeMounts"]
    written = {mount["mountPath"]: mount["name"] for mount in mounts if not mount.get("readOnly")}
    assert written.keys() == {settings()["NOTIFIER_DATA"], "/tmp"}
    assert {volume["name"] for volume in workload(role).pod["volumes"] if "emptyDir" in volume} == set(written.values())


@for_each_role
def test_certificate_authorities_are_mounted_as_documented(role: str) -> None:
    [mount] = [mount_ for mount_ in workload(role).container["volumeMounts"] if mount_.get("readOnly")]
    [volume] = [volume for volume in workload(role).pod["volumes"] if volume["name"] == mount["name"]]
    assert volume["configMap"] == {"name": "notifier-authorities", "optional": True}
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    assert f"`{mount['mountPath']}`" in page
    assert volume["configMap"]["name"] in page


@for_each_role
def test_settings_come_from_the_config_map_and_secrets_from_secrets(role: str) -> None:
    config, engines = workload(role).container["envFrom"]
    assert config == {"configMapRef": {"name": "notifier"}}
    assert engines == {"secretRef": {"name": "notifier-engines", "optional": True}}
    variables = workload(role).container.get("env", [])
    assert all("secretKeyRef" in variable["valueFrom"] for variable in variables)
    assert [variable["name"] for variable in variables] == (["NOTIFIER_SECRET"] if role == "api" else [])


def test_manifests_hold_no_secret() -> None:
    assert [manifest_.name for manifest_ in base() if manifest_.kind == "Secret"] == []
    assert {name for name, value in settings().items() if "@" in value or "SECRET" in name} == set()


def test_every_setting_is_known_to_the_code() -> None:
    known = {setting.variable for setting in setting_entries(Settings)}
    assert settings().keys() <= known
    assert all(isinstance(value, str) for value in settings().values())
    Settings.read(settings())


def test_every_pool_has_its_own_broker() -> None:
    brokers = {name: value for name, value in settings().items() if name.startswith("NOTIFIER_BROKERS_")}
    assert brokers.keys() == {f"NOTIFIER_BROKERS_{pool.replace('.', '_').upper()}" for pool in Pool}
    assert len({*brokers.values(), settings()["NOTIFIER_REDIS_URL"]}) == len(brokers) + 1


def test_api_probes_use_public_routes() -> None:
    requests = {name: probe["httpGet"] for name, probe in probes("api").items()}
    assert requests.keys() == {"startupProbe", "readinessProbe", "livenessProbe"}
    described = MemoryBackend().app().routes
    open_to_all = {
        route.path
        for route in described
        for handler in getattr(route, "route_handlers", ())
        if "GET" in handler.http_methods and not handler.resolve_guards()
    }
    assert {get["path"] for get in requests.values()} <= open_to_all
    assert {get["port"] for get in requests.values()} == {"http"}


def test_store_outage_does_not_remove_the_api_from_the_service() -> None:
    """It doesn't restart the API either: a partial response is better than none."""
    assert {name for name, probe in probes("api").items() if probe["httpGet"]["path"] == "/readyz"} == {"startupProbe"}


@pytest.mark.parametrize("role", ["pump", *(str(pool) for pool in Pool)])
def test_probes_of_other_roles_check_pid_file_and_heartbeat(role: str) -> None:
    data = Path(settings()["NOTIFIER_DATA"])
    commands = {name: probe["exec"]["command"] for name, probe in probes(role).items()}
    test_pid_file = ["test", "-e", str(pid_files_of(data).folder / role)]
    assert commands.pop("startupProbe") == commands.pop("readinessProbe") == test_pid_file
    [[*shell, line]] = [commands.pop("livenessProbe")]
    assert shell == ["sh", "-c"]
    assert line == f'test -n "$(find {standalone_heartbeat_file(data, role)} -mmin -{MAX_SILENCE_SECONDS / 60:g})"'
    assert commands == {}


@pytest.mark.parametrize("role", ["pump", *(str(pool) for pool in Pool)])
def test_startup_probe_allows_as_long_as_up_does(role: str) -> None:
    probe = probes(role)["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= START_TIMEOUT_SECONDS


@for_each_pool
def test_stopped_worker_has_time_to_hand_back_its_slice(role: str) -> None:
    assert workload(role).pod["terminationGracePeriodSeconds"] >= TIME_SHARE.total_seconds() + 10


def test_stopped_api_has_time_to_finish_its_requests() -> None:
    pause = workload("api").container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert workload("api").pod["terminationGracePeriodSeconds"] >= pause + 20


@for_each_deployment
def test_deployment_keeps_running_while_one_pod_leaves(role: str) -> None:
    assert workload(role).spec["replicas"] >= 2
    assert find_manifest("PodDisruptionBudget", object_name(role)).spec["maxUnavailable"] == 1


@for_each_role
def test_memory_request_is_the_measured_one(role: str) -> None:
    measured = figure("worker_rss_mb")
    requested, limit = memory(role)
    assert measured["value"] < measured["limit"] <= requested
    assert limit == 2 * requested
    text = workload(role).path.read_text(encoding="utf-8")
    assert set(re.findall(r"(\d+) MB", text)) <= {f"{measured['limit']:.0f}"}
    assert all(figure(name) for name in re.findall(r"`(\w+_(?:mb|isolation))`", text))


def test_api_has_memory_for_its_streams() -> None:
    requested, _ = memory("api")
    assert requested >= figure("worker_rss_mb")["limit"] + Settings().streams * BYTES_PER_STREAM / MEGABYTE


def memory(role: str) -> tuple[float, float]:
    resources = workload(role).container["resources"]
    requests, limits = (resources[name]["memory"] for name in ("requests", "limits"))
    assert requests.endswith("M")
    assert limits.endswith("M")
    return float(requests[:-1]), float(limits[:-1])


def figure(name: str) -> Mapping[str, Any]:
    stored = json.loads((ROOT / "docs" / "benchmarks.json").read_text(encoding="utf-8"))
    [match] = [check for check in stored["fanout"]["envelope"]["checks"] if check["name"] == name]
    return dict(match)


def test_higher_niceness_of_a_pool_means_a_lower_cpu_request() -> None:
    ranked = sorted(Pool, key=lambda pool: POOLS[pool].niceness)
    requested = [cpu(str(pool)) for pool in ranked]
    assert requested == sorted(requested, reverse=True)
    assert cpu("p0") > cpu("p1") > cpu("p2")


def cpu(role: str) -> float:
    requested = str(workload(role).container["resources"]["requests"]["cpu"])
    return float(requested[:-1]) / 1000 if requested.endswith("m") else float(requested)


def test_migration_job_ends() -> None:
    job = workload("migrate")
    assert job.pod["restartPolicy"] == "OnFailure"
    assert job.spec["activeDeadlineSeconds"] > 0


def test_kubernetes_page_names_all_secrets_images_and_files() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    variables = [variable for role in WORKLOADS for variable in workload(role).container.get("env", [])]
    secrets = {variable["valueFrom"]["secretKeyRef"]["name"] for variable in variables} | {"notifier-engines"}
    assert {name for name in secrets if f"`{name}`" not in page} == set()
    assert set(re.findall(r"--tag (\S+)", page)) == {workload(role).container["image"] for role in WORKLOADS}
    paths = set(re.findall(r"\b(?:k8s|notifier/devkit)/[\w./-]+", page))
    assert {path for path in paths if not (ROOT / path.rstrip(".")).exists()} == set()
