"""The manifests below k8s/base say what the code does: roles, commands, settings, routes, times, measurements."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from notifier.cli.supervisor.heartbeat import SILENT_FOR, STARTS_WITHIN, alone
from notifier.cli.supervisor.pid_files import roster
from notifier.cli.supervisor.processes import ROLES
from notifier.config import Settings, named
from notifier.domain.delivery.slice import HAND_BACK_AFTER, Pool
from tests.docs.understood import understood
from tests.repo.manifests import BASE, COMMANDS, WORKLOADS, base, called, component, kustomization, one, workload
from tests.repo.sources import ROOT, pyproject
from tests.support.http_app import House
from workers.runner import POOLS

OF_A_DEPLOYMENT = {"Deployment", "PodDisruptionBudget", "ServiceAccount"}
MEGABYTE = 1_000_000

each_role = pytest.mark.parametrize("role", WORKLOADS)
each_pool = pytest.mark.parametrize("role", [str(pool) for pool in Pool])
each_deployment = pytest.mark.parametrize("role", [role for role, kind in WORKLOADS.items() if kind == "Deployment"])


def settings() -> Mapping[str, str]:
    return dict(one("ConfigMap", "notifier").content["data"])


def probes(role: str) -> Mapping[str, Mapping[str, Any]]:
    return {name: probe for name, probe in workload(role).container.items() if name.endswith("Probe")}


def test_every_role_of_the_system_has_its_objects_and_nobody_else_has() -> None:
    kinds = {folder.name: {each.kind for each in base() if each.path.parent == folder} for folder in folders()}
    assert kinds == {
        **dict.fromkeys(map(component, ROLES), OF_A_DEPLOYMENT),
        "api": {*OF_A_DEPLOYMENT, "Service"},
        "migrate": {"Job", "ServiceAccount"},
    }


def folders() -> list[Path]:
    return [path for path in BASE.iterdir() if path.is_dir()]


def test_the_kustomization_lists_every_file_once() -> None:
    listed = kustomization(BASE)["resources"]
    assert sorted(listed) == sorted(each.path.relative_to(BASE).as_posix() for each in base())


def test_a_file_is_named_after_its_kind_and_its_object_after_its_role() -> None:
    for each in base():
        if each.path.parent != BASE:
            assert re.sub("(?<=[a-z])(?=[A-Z])", "-", each.kind).lower() == each.path.stem
            assert each.name == f"notifier-{each.path.parent.name}"
            assert each.labels["app.kubernetes.io/component"] == each.path.parent.name
        assert each.labels["app.kubernetes.io/name"] == "notifier"


@each_deployment
def test_what_selects_a_role_s_pods_finds_them_and_no_others(role: str) -> None:
    own = workload(role).spec["template"]["metadata"]["labels"]
    assert own == workload(role).labels
    assert workload(role).spec["selector"]["matchLabels"] == own
    assert one("PodDisruptionBudget", called(role)).spec["selector"]["matchLabels"] == own
    [spread] = workload(role).pod["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == own


def test_the_service_leads_to_the_api_s_port() -> None:
    service = one("Service", "notifier-api").spec
    assert service["selector"] == workload("api").labels
    [port], [opened] = service["ports"], workload("api").container["ports"]
    assert port["targetPort"] == opened["name"]
    assert str(opened["containerPort"]) == settings()["NOTIFIER_PORT"]


@each_role
def test_a_role_is_started_by_the_command_that_up_starts_it_with(role: str) -> None:
    found = workload(role).container
    assert tuple(found["args"]) == COMMANDS[role]
    assert "command" not in found  # the image's entrypoint is `notifier`
    understood(found["args"])


@each_role
def test_all_roles_run_the_image_of_this_version(role: str) -> None:
    assert workload(role).container["image"] == f"notifier:{pyproject()['project']['version']}"


@each_role
def test_a_pod_may_do_nothing_that_it_does_not_need(role: str) -> None:
    pod, container = workload(role).pod, workload(role).container
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["serviceAccountName"] == called(role)
    assert pod["automountServiceAccountToken"] is False
    assert one("ServiceAccount", called(role)).content["automountServiceAccountToken"] is False


@each_role
def test_a_pod_gets_no_settings_that_are_named_after_a_service(role: str) -> None:
    """A Service `notifier` on port 80 would be NOTIFIER_PORT=tcp://10.0.0.7:80."""
    assert workload(role).pod["enableServiceLinks"] is False


@each_role
def test_what_a_role_writes_has_room_beside_the_read_only_root(role: str) -> None:
    mounts = workload(role).container["volumeMounts"]
    written = {each["mountPath"]: each["name"] for each in mounts if not each.get("readOnly")}
    assert written.keys() == {settings()["NOTIFIER_DATA"], "/tmp"}
    assert {each["name"] for each in workload(role).pod["volumes"] if "emptyDir" in each} == set(written.values())


@each_role
def test_the_certificates_of_authorities_are_where_the_documents_say(role: str) -> None:
    [mount] = [each for each in workload(role).container["volumeMounts"] if each.get("readOnly")]
    [volume] = [each for each in workload(role).pod["volumes"] if each["name"] == mount["name"]]
    assert volume["configMap"] == {"name": "notifier-authorities", "optional": True}
    words = (ROOT / "docs" / "kubernetes.md").read_text()
    assert f"`{mount['mountPath']}`" in words
    assert volume["configMap"]["name"] in words


@each_role
def test_settings_come_from_the_one_place_and_secrets_from_secrets(role: str) -> None:
    config, engines = workload(role).container["envFrom"]
    assert config == {"configMapRef": {"name": "notifier"}}
    assert engines == {"secretRef": {"name": "notifier-engines", "optional": True}}
    own = workload(role).container.get("env", [])
    assert all("secretKeyRef" in each["valueFrom"] for each in own)
    assert [each["name"] for each in own] == (["NOTIFIER_SECRET"] if role == "api" else [])


def test_the_manifests_hold_no_secret() -> None:
    assert [each.name for each in base() if each.kind == "Secret"] == []
    assert {name for name, value in settings().items() if "@" in value or "SECRET" in name} == set()


def test_every_setting_is_one_that_the_code_reads() -> None:
    known = {one.variable for one in named(Settings)}
    assert settings().keys() <= known
    assert all(isinstance(value, str) for value in settings().values())
    Settings.read(settings())


def test_every_pool_has_a_broker_of_its_own() -> None:
    brokers = {name: value for name, value in settings().items() if name.startswith("NOTIFIER_BROKERS_")}
    assert brokers.keys() == {f"NOTIFIER_BROKERS_{pool.replace('.', '_').upper()}" for pool in Pool}
    assert len({*brokers.values(), settings()["NOTIFIER_REDIS_URL"]}) == len(brokers) + 1


def test_the_api_s_probes_ask_routes_that_anybody_may_ask() -> None:
    asked = {name: probe["httpGet"] for name, probe in probes("api").items()}
    assert asked.keys() == {"startupProbe", "readinessProbe", "livenessProbe"}
    described = House().app().routes
    open_to_all = {
        route.path
        for route in described
        for handler in getattr(route, "route_handlers", ())
        if "GET" in handler.http_methods and not handler.resolve_guards()
    }
    assert {get["path"] for get in asked.values()} <= open_to_all
    assert {get["port"] for get in asked.values()} == {"http"}


def test_a_store_that_is_away_takes_no_api_out_of_the_service() -> None:
    """Nor restarts it: what it can still say is better than nothing."""
    assert {name for name, probe in probes("api").items() if probe["httpGet"]["path"] == "/readyz"} == {"startupProbe"}


@pytest.mark.parametrize("role", ["pump", *(str(pool) for pool in Pool)])
def test_a_role_that_listens_to_nothing_is_ready_once_it_has_signed_and_lives_while_it_beats(role: str) -> None:
    data = Path(settings()["NOTIFIER_DATA"])
    asked = {name: probe["exec"]["command"] for name, probe in probes(role).items()}
    signed = ["test", "-e", str(roster(data).folder / role)]
    assert asked.pop("startupProbe") == asked.pop("readinessProbe") == signed
    [[*shell, line]] = [asked.pop("livenessProbe")]
    assert shell == ["sh", "-c"]
    assert line == f'test -n "$(find {alone(data, role)} -mmin -{SILENT_FOR / 60:g})"'
    assert asked == {}


@pytest.mark.parametrize("role", ["pump", *(str(pool) for pool in Pool)])
def test_a_role_has_as_long_to_start_as_one_of_up(role: str) -> None:
    probe = probes(role)["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= STARTS_WITHIN


@each_pool
def test_a_worker_that_is_stopped_has_time_to_hand_its_slice_back(role: str) -> None:
    assert workload(role).pod["terminationGracePeriodSeconds"] >= HAND_BACK_AFTER.total_seconds() + 10


def test_the_api_has_time_for_what_is_under_way_when_nobody_asks_any_more() -> None:
    pause = workload("api").container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert workload("api").pod["terminationGracePeriodSeconds"] >= pause + 20


@each_deployment
def test_a_role_goes_on_while_one_of_its_pods_leaves(role: str) -> None:
    assert workload(role).spec["replicas"] >= 2
    assert one("PodDisruptionBudget", called(role)).spec["maxUnavailable"] == 1


@each_role
def test_memory_is_what_was_measured(role: str) -> None:
    measured = figure("worker_rss_mb")
    asked, limit = memory(role)
    assert measured["value"] < measured["limit"] <= asked
    assert limit == 2 * asked
    text = workload(role).path.read_text(encoding="utf-8")
    assert set(re.findall(r"(\d+) MB", text)) <= {f"{measured['limit']:.0f}"}
    assert all(figure(name) for name in re.findall(r"`(\w+_(?:mb|isolation))`", text))


def test_the_api_has_memory_for_its_streams() -> None:
    asked, _ = memory("api")
    assert asked >= figure("worker_rss_mb")["limit"] + Settings().streams * 10_000 / MEGABYTE


def memory(role: str) -> tuple[float, float]:
    resources = workload(role).container["resources"]
    requests, limits = (resources[name]["memory"] for name in ("requests", "limits"))
    assert requests.endswith("M")
    assert limits.endswith("M")
    return float(requests[:-1]), float(limits[:-1])


def figure(name: str) -> Mapping[str, Any]:
    stored = json.loads((ROOT / "docs" / "benchmarks.json").read_text(encoding="utf-8"))
    [found] = [each for each in stored["fanout"]["envelope"]["checks"] if each["name"] == name]
    return dict(found)


def test_the_politer_a_pool_is_the_less_processor_it_is_promised() -> None:
    ranked = sorted(Pool, key=lambda pool: POOLS[pool].niceness)
    promised = [processor(str(pool)) for pool in ranked]
    assert promised == sorted(promised, reverse=True)
    assert processor("p0") > processor("p1") > processor("p2")


def processor(role: str) -> float:
    asked = str(workload(role).container["resources"]["requests"]["cpu"])
    return float(asked[:-1]) / 1000 if asked.endswith("m") else float(asked)


def test_nothing_is_migrated_by_anything_that_goes_on_for_ever() -> None:
    job = workload("migrate")
    assert job.pod["restartPolicy"] == "OnFailure"
    assert job.spec["activeDeadlineSeconds"] > 0


def test_the_page_on_it_names_what_whoever_applies_it_has_to_make() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    given = [each for role in WORKLOADS for each in workload(role).container.get("env", [])]
    secrets = {each["valueFrom"]["secretKeyRef"]["name"] for each in given} | {"notifier-engines"}
    assert {name for name in secrets if f"`{name}`" not in page} == set()
    assert set(re.findall(r"--tag (\S+)", page)) == {workload(role).container["image"] for role in WORKLOADS}
    named = set(re.findall(r"\b(?:k8s|notifier/devkit)/[\w./-]+", page))
    assert {path for path in named if not (ROOT / path.rstrip(".")).exists()} == set()
