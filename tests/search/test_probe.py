from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tau_trainer.search.probe import Prober
from tau_trainer.search.scaling import Probe, scaled
from tau_trainer.search.sizes import batch_range, resized, with_batch, with_copies
from tau_trainer.settings.batched import BatchedSettings

pytestmark = pytest.mark.timeout(240)
PPO = {"trainer_type": "ppo", "hyperparameters": {"batch_size": 16, "buffer_size": 64}}


def settings(num_envs: int = 4, policy: dict[str, Any] | None = None, **arguments: Any) -> BatchedSettings:
    return BatchedSettings.model_validate(
        {
            "environment": {"name": "tests.search.sized:Fragile", "num_envs": num_envs, "arguments": arguments},
            "policies": {"all": policy or PPO},
            "seed": 1,
        }
    )


def prober(how: str = "memory", **options: Any) -> Prober:
    chosen = settings(how=how)
    return Prober(chosen, lambda size: with_copies(chosen, size), **{"seconds": 0.05} | options)


def test_what_fits_is_measured() -> None:
    seen: list[object] = []
    found = prober(on_start=seen.append, on_end=seen.append)(8)
    assert found.failure is None
    assert found.rate > 100.0
    assert found.memory is not None
    assert found.memory > 10**8, "bytes, torch among them"
    assert seen == [8, found]


@pytest.mark.parametrize(
    ("how", "failure", "text"),
    [
        ("memory", "memory", "MemoryError: none left"),
        ("torch", "memory", "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        ("allocator", "memory", "DefaultCPUAllocator: can't allocate memory"),
        ("limit", "memory", "MemoryError"),
        ("killed", "memory", "it was killed, as the system does where memory is short"),
        ("crash", "ended", "its process ended with exit code -11"),
        ("other", "error", "it is of no use"),
    ],
)
def test_whatever_ends_a_probe_is_survived(how: str, failure: str, text: str) -> None:
    found = prober(how)(9)
    assert found.failure == failure
    assert text in found.text
    assert "\n" not in found.text


def test_a_probe_that_hangs_is_ended_in_time() -> None:
    begun = time.monotonic()
    found = prober("hangs", limit_s=6.0)(9)
    assert found == Probe(9, failure="time", text="it was not done after 6 s")
    assert time.monotonic() - begun < 12.0


def test_the_search_finds_what_fits() -> None:
    found = scaled(prober("killed"), 8, gain=1e-9, most=10)
    assert found.best == 8
    assert [one.size for one in found.probes if one.failure] == [10, 9]


def test_it_can_be_stopped() -> None:
    probing = prober("hangs")
    threading.Timer(3.0, probing.stop).start()
    begun = time.monotonic()
    assert probing(9).failure == "ended"
    assert time.monotonic() - begun < 15.0
    assert probing.stopped


def test_sizes_keep_the_steps_between_updates() -> None:
    chosen = settings(num_envs=4)
    assert with_copies(chosen, 16) == {
        ("environment", "num_envs"): 16,
        ("policies", "all", "hyperparameters", "buffer_size"): 256,
    }
    again = resized(chosen, with_copies(chosen, 16))
    assert again.environment.num_envs == 16
    assert again.policies["all"].hyperparameters.buffer_size == 256
    assert again.policies["all"].hyperparameters.batch_size == 16
    assert again.seed == chosen.seed


def test_one_batch_stays_one_batch() -> None:
    chosen = settings(policy={"trainer_type": "a2c", "hyperparameters": {"buffer_size": 64}})
    sizes = with_copies(chosen, 8)
    assert sizes["policies", "all", "hyperparameters", "batch_size"] == 128
    assert batch_range(resized(chosen, sizes)) is None


def test_batches_grow_together_up_to_their_buffers() -> None:
    several = settings().model_dump(mode="json")
    several["policies"] = {
        "left": {"agents": ["left"], **PPO},
        "right": {"agents": ["right"], "trainer_type": "ppo", "hyperparameters": {"batch_size": 8, "buffer_size": 64}},
    }
    chosen = BatchedSettings.model_validate(several)
    assert batch_range(chosen) == (16, 128)
    sizes = {place[1]: size for place, size in with_batch(chosen, 128).items()}
    assert sizes == {"left": 64, "right": 64}
    sizes = {place[1]: size for place, size in with_batch(chosen, 32).items()}
    assert sizes == {"left": 32, "right": 16}
