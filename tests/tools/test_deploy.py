"""What schedulers are given: a token always, nothing open that need not be, never `ray stop`, and the exit code."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.waiting import HANG_S
from tools.deploy import kuberay

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "tools" / "deploy"
KINDS = pytest.mark.parametrize("kind", ["cluster", "job"])
posix = pytest.mark.skipif(os.name == "nt", reason="a bash script")

KEYS = {
    "RayCluster": {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"},
    "RayJob": {
        "entrypoint", "backoffLimit", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "rayClusterSpec",
    },
    "head": {"serviceType", "rayStartParams", "template"},
    "worker": {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"},
}  # fmt: skip
"""As KubeRay's API (ray.io/v1) spells them: what it does not know it drops without a word."""


def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> list[dict[str, Any]]:
    monkeypatch.setattr(sys, "argv", ["kuberay", *words])
    assert kuberay.main() == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def cluster_of(manifest: dict[str, Any]) -> dict[str, Any]:
    cluster: dict[str, Any] = manifest["spec"].get("rayClusterSpec", manifest["spec"])
    return cluster


def pods_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    cluster = cluster_of(manifest)
    return [group["template"] for group in [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]]


@KINDS
def test_manifests_have_kuberays_keys_and_ask_for_a_token(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, manifest = printed(capsys, monkeypatch, "--kind", kind)
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", {"cluster": "RayCluster", "job": "RayJob"}[kind])
    assert manifest["spec"].keys() == KEYS[manifest["kind"]]
    cluster = cluster_of(manifest)
    assert cluster.keys() == KEYS["RayCluster"]
    assert cluster["headGroupSpec"].keys() == KEYS["head"]
    (workers,) = cluster["workerGroupSpecs"]
    assert workers.keys() == KEYS["worker"]
    assert cluster["authOptions"] == {"mode": "token"}
    constraints = (ROOT / "constraints.txt").read_text()
    assert f"\nray=={cluster['rayVersion']}\n" in constraints, "the version that is tested"
    for group in (cluster["headGroupSpec"], workers):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values()), "words of a command line"
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert policy["kind"] == "NetworkPolicy"


@KINDS
def test_pods_have_no_rights_and_nothing_is_open_beyond_them(kind: str) -> None:
    policy, manifest = kuberay.manifests(kuberay.read(None), kind)
    head = cluster_of(manifest)["headGroupSpec"]
    assert head["serviceType"] == "ClusterIP"
    assert head["rayStartParams"]["dashboard-host"] == {"cluster": "127.0.0.1", "job": "0.0.0.0"}[kind]
    for pod in pods_of(manifest):
        assert pod["metadata"]["labels"] == policy["spec"]["podSelector"]["matchLabels"], "all are behind the policy"
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"] == container["resources"]["requests"]
        assert not any("TOKEN" in variable["name"] for variable in container["env"]), "the operator's secret, not ours"
    rules = policy["spec"]["ingress"]
    assert rules[0] == {"from": [{"podSelector": policy["spec"]["podSelector"]}]}
    ports = [[each["port"] for each in rule["ports"]] for rule in rules[1:]]
    assert ports == {"cluster": [], "job": [[8265]]}[kind], "what takes the job"
    operator = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    assert all(rule["from"] == [{"podSelector": {}}, {"namespaceSelector": operator}] for rule in rules[1:])


def test_a_job_trains_on_its_own_cluster_and_goes(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("command: [learn, 'my file.yaml']\nretries: 2\nvolume: runs\nresources: {unity: 4}\n")
    _, job = kuberay.manifests(kuberay.read(values), "job")
    words = shlex.split(job["spec"]["entrypoint"])
    assert words == [
        "tau-train", "learn", "my file.yaml", "--cluster", "RAY_ADDRESS", "--results-dir", "/results",
    ]  # fmt: skip
    assert (job["spec"]["backoffLimit"], job["spec"]["shutdownAfterJobFinishes"]) == (2, True)
    for pod in pods_of(job):
        assert pod["spec"]["volumes"] == [{"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}}]
        assert pod["spec"]["containers"][0]["volumeMounts"] == [{"name": "runs", "mountPath": "/results"}]
    (word,) = shlex.split(cluster_of(job)["workerGroupSpecs"][0]["rayStartParams"]["resources"])
    assert json.loads(word) == {"unity": 4}, "as a shell hands it on"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour: red", "unknown key 'colour'; valid keys: name, "),
        ("workers: {number: 3}", "workers: unknown key 'number'; valid keys: replicas, "),
        ("workers: 3", "workers is 3; give replicas, "),
        ("name: My_Cluster", "give up to 40 small letters"),
        ("ray_version: 2.50.0", "older versions have no tokens"),
        ("command: [learn, --cluster, local]", "command has --cluster"),
        ("command: [learn, --cluster=local]", "command has --cluster"),
        ("command: [learn, 3]", "put numbers in quotes"),
        ("retries: many", "retries is 'many'; give a value like 0"),
        ("- a list", "has no keys"),
        ("a: [", "cannot be read"),
    ],
)
def test_a_wrong_value_is_a_sentence_and_exit_code_2(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(text)
    monkeypatch.setattr(sys, "argv", ["kuberay", str(path)])
    assert kuberay.main() == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""


def test_manifests_are_checked_against_the_schemas_of_an_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jsonschema")
    words, unread = {"type": "string"}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    mode: dict[str, Any] = {**words, "enum": ["disabled", "token"]}
    fields: dict[str, Any] = {
        "rayVersion": words,
        "authOptions": {"type": "object", "properties": {"mode": mode}},
        "headGroupSpec": unread,
        "workerGroupSpecs": {"type": "array", "items": unread | {"properties": {}}},
    }
    spec = {"type": "object", "required": ["headGroupSpec"], "properties": fields}

    def written() -> None:
        properties: dict[str, Any] = {"apiVersion": words, "kind": words, "metadata": {"type": "object"}, "spec": spec}
        schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
        definition = {"spec": {"versions": [{"name": "v1", "schema": schema}]}}
        (tmp_path / "ray.io_rayclusters.yaml").write_text(yaml.safe_dump(definition))

    written()
    asked = ("--kind", "cluster", "--crds", str(tmp_path))
    assert len(printed(capsys, monkeypatch, *asked)) == 2
    mode["enum"] = ["disabled"]
    del fields["rayVersion"]
    written()
    assert kuberay.main() == 2
    shown = capsys.readouterr().err
    assert "spec.authOptions.mode: 'token' is not one of" in shown
    assert "'rayVersion' was unexpected" in shown
    monkeypatch.setattr(sys, "argv", ["kuberay", "--kind", "job", "--crds", str(tmp_path)])
    assert kuberay.main() == 2
    assert "--crds is the folder" in capsys.readouterr().err


def test_the_image_has_the_tested_versions_no_rights_and_what_the_package_needs() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    copied = {word for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for word in line.split()[:-1]}
    assert copied == {"constraints.txt", "pyproject.toml", "README.md", "LICENSE", "configs", "tau_trainer"}
    assert all((ROOT / name).exists() for name in copied)
    let_in = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"}
    assert let_in == copied
    assert "-c constraints.txt" in text
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["1000"]
    assert "RAY_AUTH_MODE=token" in text


STUB = """#!{python}
import json, os, signal, sys, time
name = os.path.basename(sys.argv[0])
row = [name, sys.argv[1:], os.environ.get("RAY_AUTH_TOKEN", ""), os.environ.get("RAY_AUTH_MODE", "")]
with open({log!r}, "a") as log:
    log.write(json.dumps(row) + "\\n")
if name == "scontrol":
    print("node1\\nnode2\\nnode3")
elif "hostname" in sys.argv:
    print("127.0.1.1 10.1.2.3 10.9.9.9")
elif name == "srun" and "rm" not in sys.argv:
    time.sleep(1000)
elif name == "tau-train":
    while open({log!r}).read().count('"start"') < 1 + (os.environ["SLURM_JOB_NUM_NODES"] != "1"):
        time.sleep(0.01)  # the script ends what has yet to write its line
    if len(sys.argv) > 1 and sys.argv[1] == "asked":
        signal.signal(signal.SIGINT, lambda *_: sys.exit(int(os.environ["ENDS"])))
        status = f"/proc/{{os.getppid()}}/status"
        def hears():
            caught = next(line for line in open(status) if line.startswith("SigCgt")).split()[1]
            return int(caught, 16) >> (signal.SIGTERM - 1) & 1
        while os.path.exists(status) and not hears():
            time.sleep(0.01)  # until the script has set its trap
        if not os.path.exists(status):
            time.sleep(0.5)
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(1000)
    sys.exit(int(os.environ["ENDS"]))
elif name == "python3" and sys.argv[1] == "-c":
    print("secret")
"""


def job(folder: Path, nodes: int, ends: int = 0, command: str = "learn") -> tuple[int, list[list[Any]]]:
    """A Slurm job whose programs are stubs; its exit code, and what was called, with which token and mode."""
    log = folder / "log"
    for name in ("srun", "scontrol", "tau-train", "python3"):
        stub = folder / name
        stub.write_text(STUB.format(python=sys.executable, log=str(log)))
        stub.chmod(0o700)
    variables = {
        "PATH": f"{folder}:{os.environ['PATH']}", "ENDS": str(ends), "SLURM_JOB_ID": "1234567",
        "SLURM_JOB_NODELIST": "node[1-3]", "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_CPUS_PER_TASK": "16",
    }  # fmt: skip
    words = ["bash", str(DEPLOY / "slurm.sh"), command, "my file.yaml"]
    process = subprocess.Popen(
        words, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        code = process.wait(HANG_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # whatever the stubs have left
        process.wait()
    return code, [json.loads(line) for line in log.read_text().splitlines()]


@posix
def test_a_slurm_job_has_a_token_of_its_own_and_its_exit_code_is_the_runs(tmp_path: Path) -> None:
    code, calls = job(tmp_path, 3, 2)
    assert code == 2
    starts = [words for name, words, *_ in calls if name == "srun" and "ray" in words]
    (head,) = [words for words in starts if "--head" in words]
    (others,) = [words for words in starts if "--head" not in words]
    assert {"--nodelist=node1", "--node-ip-address=10.1.2.3", "--port=29134", "--num-cpus=0"} <= set(head)
    assert "--ray-client-server-port=29135" in head, "no other job's"
    assert "--include-dashboard=false" in head
    assert {"--nodes=2", "--exclude=node1", "--address=10.1.2.3:29134", "--num-cpus=16"} <= set(others)
    (trained,) = [words for name, words, *_ in calls if name == "tau-train"]
    assert trained == ["learn", "my file.yaml", "--cluster", "10.1.2.3:29134"]
    (removed,) = [words for name, words, *_ in calls if "rm" in words]
    assert {"--nodes=3", "/tmp/tau-1234567"} < set(removed)
    for name, words, token, mode in calls:
        assert "stop" not in words
        assert not any("secret" in word for word in words if "import secrets" not in word), "others see command lines"
        if name == "tau-train" or "ray" in words:
            assert (token, mode) == ("secret", "token")


@posix
def test_a_slurm_job_of_one_node_has_actors_on_it_and_keeps_rays_files_from_others(tmp_path: Path) -> None:
    """Ray makes its own folder open to everybody; a folder of somebody else's is refused."""
    code, calls = job(tmp_path, 1)
    assert code == 0
    (head,) = [words for name, words, *_ in calls if name == "srun" and "ray" in words]
    assert "--num-cpus=16" in head
    _, script, home, *words = head[head.index("-c") :]
    assert f"--temp-dir={home}/r" in words
    (tmp_path / "ray").write_text("#!/bin/sh\nmkdir $1/r && chmod 777 $1/r\n")
    (tmp_path / "ray").chmod(0o700)
    place, elsewhere = tmp_path / "home", tmp_path / "elsewhere"

    def start() -> int:
        return subprocess.run(["sh", "-c", script, place, tmp_path / "ray", place], check=False).returncode

    assert start() == 0
    assert place.stat().st_mode & 0o777 == 0o700
    (place / "r").rmdir()
    place.chmod(0o755)
    assert start() == 0, "one that was left behind"
    assert place.stat().st_mode & 0o777 == 0o700
    elsewhere.mkdir()
    place.rename(tmp_path / "away")
    place.symlink_to(elsewhere)
    assert start() == 1
    assert not list(elsewhere.iterdir())


@posix
def test_a_slurm_job_that_is_asked_to_end_asks_the_run_as_by_ctrl_c(tmp_path: Path) -> None:
    code, calls = job(tmp_path, 1, 3, "asked")
    assert code == 3, "the run's own, after it has saved"
    assert any("rm" in words for _, words, *_ in calls)
    done = subprocess.run(["bash", str(DEPLOY / "slurm.sh")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: sbatch"), "without words it says how it is used"
