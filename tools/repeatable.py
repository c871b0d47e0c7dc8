"""Twelve small deterministic runs, and a hash of the weights that each has learned.

    python -m tools.repeatable                       # of this tree
    python -m tools.repeatable --against main        # and of another revision; exit code 1 if they differ

If you change how experience is collected or learned from, this shows at once which results change. Floating-point
results depend on the machine, so no hashes are stored: both trees are run on the spot.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_DEMO = "cartpole.demo"
RUNS: dict[str, str] = {
    "ppo": "learn CartPole --max-steps 3000 --deterministic-collection",
    "ppo, an engine": "learn 3DBall --env headless:balance --max-steps 3000 --deterministic-collection "
    "--set behaviors.*.hyperparameters.buffer_size=960 --set behaviors.*.hyperparameters.batch_size=64",
    "ppo, recurrent": "learn Hallway --env headless:hallway --max-steps 1500 --deterministic-collection "
    "--set behaviors.*.hyperparameters.buffer_size=512 --set behaviors.*.network_settings.memory.memory_size=16",
    "sac": "learn Pendulum --max-steps 600 --deterministic-collection",
    "td3": "learn PendulumTD3 --max-steps 600 --deterministic-collection",
    "dqn, hindsight": "learn BitFlipping --max-steps 2500 --deterministic-collection",
    "maddpg": "learn SimpleSpread --max-steps 3000 --deterministic-collection "
    "--set behaviors.*.hyperparameters.buffer_init_steps=1000",
    "actors in lock step": "learn CartPoleDQN --max-steps 1500 --actors 2 --set async_trainer.mode=lock_step",
    "pairs": "parallel tau3 --pairs 2 --agents 4 --policy independent --max-steps 1200 --deterministic-collection "
    "--set behaviors.*.hyperparameters.buffer_size=128 --set behaviors.*.hyperparameters.batch_size=32",
    "population": "parallel tau3 --env batched:tau --pairs 3 --agents 4 --policy independent --max-steps 1200 "
    "--set behaviors.*.hyperparameters.buffer_size=128 --set behaviors.*.hyperparameters.batch_size=32",
    "batched": "batch cartpole_batch --max-steps 60000",
    "recordings": "learn CartPoleBC --max-steps 300 "
    f"--set behaviors.*.demo_path={_DEMO} --set env_settings.env_path=null",
}
"""Command lines by name; the first run's policy makes the recording for the last run."""


def hash_of(folder: Path) -> str:
    """Hash of the newest checkpoints' arrays, in the order of their names."""
    from safetensors.numpy import load_file

    found = hashlib.sha256()
    newest = {path.name.rpartition("-")[0]: path for path in sorted(folder.glob("*-*"), key=_step) if path.is_dir()}
    for name, path in sorted(newest.items()):
        arrays = load_file(path / "tensors.safetensors")
        for key in sorted(arrays):
            found.update(f"{name} {key} {arrays[key].dtype} {arrays[key].shape}".encode())
            found.update(arrays[key].tobytes())
    return found.hexdigest()[:16] if newest else "nothing was saved"


def _step(path: Path) -> int:
    digits = path.name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else -1


def hashes(names: list[str]) -> dict[str, str]:
    """Hashes of these runs with the code of this tree, in a temporary folder."""
    from tau_trainer.cli import main

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in names:
            words = [
                *RUNS[name].split(),
                "--seed",
                "11",
                "--run-id",
                name.replace(" ", "-").replace(",", ""),
                "--quiet",
            ]
            if name == "recordings":
                record = f"record ppo -o {_DEMO} --episodes 10 --seed 5"
                if main(record.split()):
                    raise SystemExit("the recording failed")
            code = main(words)
            found[name] = hash_of(Path("results", words[-2], "checkpoints")) if code == 0 else f"exit code {code}"
            print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
        os.chdir(ROOT)
    return found


def of_tree(tree: Path, names: list[str]) -> dict[str, str]:
    """The same with the code of another tree, in another process."""
    command = [sys.executable, str(Path(__file__).resolve()), "--json", "--runs", *names]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(command, env=environment, cwd=tree, stdout=subprocess.PIPE, check=True)
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Print the table; returns 1 if two trees differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REVISION", help="also run that revision's code, and compare")
    parser.add_argument(
        "--runs", nargs="+", choices=RUNS, default=[*RUNS], metavar="NAME", help=f"of: {', '.join(RUNS)}"
    )
    parser.add_argument("--json", action="store_true", help="print only one JSON object")
    given = parser.parse_args()
    if given.json:
        print(json.dumps(hashes(given.runs)))
        return 0
    now = of_tree(ROOT, given.runs)
    before = {}
    if given.against:
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder, "tree")
            subprocess.run(["git", "worktree", "add", "--detach", tree, given.against], cwd=ROOT, check=True)
            try:
                before = of_tree(tree, given.runs)
            finally:
                subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
    for name in given.runs:
        was = before.get(name)
        print(f"{name:<22} {now[name]}" + ("" if was is None else "  equal" if was == now[name] else f"  was {was}"))
    return int(bool(before) and before != now)


if __name__ == "__main__":
    sys.exit(main())
