"""Manifests for the KubeRay operator, from a values file.

    python -m tools.deploy.kuberay [VALUES] [--kind cluster|job] [--crds FOLDER] | kubectl apply -f -

`cluster` is a RayCluster that keeps running, `job` a RayJob that trains and ends. Both need a token, which the operator
(KubeRay 1.5.1 or newer) makes and puts into every pod; it is in no file. No service is reachable from outside the
cluster, pods have no rights, and a NetworkPolicy blocks others. The dashboard of a cluster is on its pod's loopback
address. The dashboard of a job accepts the job, so the operator's and the job's namespaces can reach it, with the
token.

`--crds` checks the manifests against the operator's schemas in a folder with its `ray.io_*.yaml` files.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
GCS_PORT, DASHBOARD_PORT = 6379, 8265
LABEL = "tau-trainer/cluster"
NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
"""Kubernetes' names, but shorter, because the operator appends to them."""
OLDEST_RAY = (2, 52, 0)
"""The first version with tokens."""


class ValuesError(ValueError):
    """An error in a values file, as one sentence."""


def read(path: Path | None) -> dict[str, Any]:
    """The defaults, updated with the values of a file. Raises ValuesError."""
    defaults: dict[str, Any] = yaml.safe_load((HERE / "values.yaml").read_text("utf-8"))
    if path is None:
        return defaults
    try:
        given = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise ValuesError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(given, dict):
        raise ValuesError(f"{path} has no keys; tools/deploy/values.yaml has all valid keys")
    values = _over(defaults, given, str(path))
    _check(values)
    return values


def _over(defaults: Mapping[str, Any], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    for key, value in given.items():
        if key not in defaults:
            raise ValuesError(f"{where}: unknown key '{key}'; valid keys: {', '.join(defaults)}")
        default = defaults[key]
        if key != "resources" and isinstance(default, dict):
            if not isinstance(value, dict):
                raise ValuesError(f"{where}: {key} is {value!r}; give {', '.join(default)}")
            given = {**given, key: _over(default, value, f"{where}: {key}")}
        elif default is not None and type(value) is not type(default):
            raise ValuesError(f"{where}: {key} is {value!r}; give a value like {default!r}")
    return {**defaults, **given}


def _check(values: Mapping[str, Any]) -> None:
    if not NAME.fullmatch(values["name"]):
        raise ValuesError(f"name is '{values['name']}'; give up to 40 small letters, digits and hyphens")
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", values["ray_version"])
    if numbers is None or tuple(map(int, numbers.groups())) < OLDEST_RAY:
        raise ValuesError(
            f"ray_version is {values['ray_version']}; give 2.52.0 or later: older versions have no tokens"
        )
    if not values["command"] or not all(isinstance(word, str) for word in values["command"]):
        raise ValuesError("command must be a list of tau-train's words; put numbers in quotes")
    if any(word.partition("=")[0] == "--cluster" for word in values["command"]):
        raise ValuesError("command has --cluster; omit it: a job uses its own cluster")


def manifests(values: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """The manifests: a NetworkPolicy, and the RayCluster or RayJob."""
    cluster = cluster_spec(values, dashboard=kind == "job")
    if kind == "cluster":
        return [network_policy(values, dashboard=False), _object("ray.io/v1", "RayCluster", values, cluster)]
    words = ["tau-train", *values["command"], "--cluster", "RAY_ADDRESS", "--results-dir", values["mount"]]
    job = {
        "entrypoint": shlex.join(words),
        "backoffLimit": values["retries"],
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": values["keep_seconds"],
        "rayClusterSpec": cluster,
    }
    return [network_policy(values, dashboard=True), _object("ray.io/v1", "RayJob", values, job)]


def _object(version: str, kind: str, values: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": values["name"], "namespace": values["namespace"], "labels": {LABEL: values["name"]}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def cluster_spec(values: Mapping[str, Any], *, dashboard: bool) -> dict[str, Any]:
    """The spec of a RayCluster; `dashboard`: whether other pods can reach the dashboard."""
    workers = values["workers"]
    own = {"num-cpus": str(workers["cpu"])}
    if values["resources"]:
        amounts = ",".join(f'\\"{name}\\":{amount}' for name, amount in values["resources"].items())
        own["resources"] = f'"{{{amounts}}}"'  # it becomes a shell word that contains JSON
    return {
        "rayVersion": values["ray_version"],
        "authOptions": {"mode": "token"},
        "headGroupSpec": {
            "serviceType": "ClusterIP",
            # Actors must not use the learner's cores.
            "rayStartParams": {"num-cpus": "0", "dashboard-host": "0.0.0.0" if dashboard else "127.0.0.1"},
            "template": pod(values, "ray-head", values["head"], head=True),
        },
        "workerGroupSpecs": [
            {
                "groupName": "actors",
                "replicas": workers["replicas"],
                "minReplicas": workers["replicas"],
                "maxReplicas": workers["replicas"],
                "rayStartParams": own,
                "template": pod(values, "ray-worker", workers, head=False),
            }
        ],
    }


def pod(values: Mapping[str, Any], name: str, asked: Mapping[str, Any], *, head: bool) -> dict[str, Any]:
    """The template of a pod, without rights. Its resource requests are also its limits."""
    amounts: dict[str, Any] = {"cpu": str(asked["cpu"]), "memory": asked["memory"]}
    if asked["gpu"]:
        amounts["nvidia.com/gpu"] = str(asked["gpu"])
    container: dict[str, Any] = {
        "name": name,
        "image": values["image"],
        "env": [{"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}, {"name": "RAY_worker_niceness", "value": "0"}],
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if head:
        ports = {"gcs-server": GCS_PORT, "dashboard": DASHBOARD_PORT}
        container["ports"] = [{"name": port, "containerPort": number} for port, number in ports.items()]
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    if values["volume"] is not None:
        container["volumeMounts"] = [{"name": "runs", "mountPath": values["mount"]}]
        spec["volumes"] = [{"name": "runs", "persistentVolumeClaim": {"claimName": values["volume"]}}]
    return {"metadata": {"labels": {LABEL: values["name"]}}, "spec": spec}


def network_policy(values: Mapping[str, Any], *, dashboard: bool) -> dict[str, Any]:
    """Access to the pods: only each other; for a job's dashboard, also its namespace and the operator's."""
    own = {"matchLabels": {LABEL: values["name"]}}
    ingress: list[dict[str, Any]] = [{"from": [{"podSelector": own}]}]
    if dashboard:
        operator = {"matchLabels": {"kubernetes.io/metadata.name": values["operator_namespace"]}}
        ports = [{"protocol": "TCP", "port": DASHBOARD_PORT}]
        ingress.append({"from": [{"podSelector": {}}, {"namespaceSelector": operator}], "ports": ports})
    spec = {"podSelector": own, "policyTypes": ["Ingress"], "ingress": ingress}
    return _object("networking.k8s.io/v1", "NetworkPolicy", values, spec)


def problems(manifest: Mapping[str, Any], crds: Path) -> list[str]:
    """Problems of a manifest by the operator's schema, including unknown keys. Raises ValuesError."""
    plural = f"{manifest['kind'].lower()}s"
    path = crds / f"ray.io_{plural}.yaml"
    try:
        definition = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ValuesError(
            f"{path} cannot be read ({error.strerror}); --crds is the folder of KubeRay's config/crd/bases"
        ) from error
    versions = {version["name"]: version["schema"]["openAPIV3Schema"] for version in definition["spec"]["versions"]}
    schema = _closed(versions[manifest["apiVersion"].partition("/")[2]])
    schema["properties"]["metadata"] = {"type": "object"}  # defined by Kubernetes
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

    found = Draft202012Validator(schema).iter_errors(manifest)
    return [f"{'.'.join(map(str, error.absolute_path)) or plural}: {error.message}" for error in found]


def _closed(schema: Any) -> Any:
    """The schema without additional properties, because Kubernetes would drop unknown keys silently."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    closed = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed


class _Plain(yaml.SafeDumper):
    """Writes repeated values in full instead of aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def main() -> int:
    """Print the manifests; exit code 2 if the values are wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("values", type=Path, nargs="?", help="YAML file; default: tools/deploy/values.yaml")
    parser.add_argument("--kind", choices=("cluster", "job"), default="job")
    parser.add_argument("--crds", type=Path, help="check against the operator's ray.io_*.yaml files in this folder")
    arguments = parser.parse_args()
    try:
        made = manifests(read(arguments.values), arguments.kind)
        if arguments.crds is not None:
            wrong = [text for manifest in made[1:] for text in problems(manifest, arguments.crds)]
            if wrong:
                raise ValuesError("; ".join(wrong))
    except ValuesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(yaml.dump_all(made, Dumper=_Plain, sort_keys=False), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
