"""Seeds left to chance are drawn once and written down."""

from __future__ import annotations

from tau_trainer.settings import EnvSettings, GaussianSampler, RunSettings, UniformSampler, resolve_seed


def test_a_given_seed_stays() -> None:
    assert resolve_seed(RunSettings(env_settings=EnvSettings(seed=42))).env_settings.seed == 42


def test_a_random_seed_is_drawn_from_mlagents_range() -> None:
    seeds = {resolve_seed(RunSettings()).env_settings.seed for _ in range(50)}
    assert seeds <= set(range(10000))
    assert len(seeds) > 10


def test_samplers_without_a_seed_get_the_runs_seed_plus_a_running_index() -> None:
    settings = RunSettings.model_validate(
        {
            "env_settings": {"seed": 100},
            "environment_parameters": {
                "constant": 1.0,
                "first": {"sampler_type": "uniform", "sampler_parameters": {}},
                "fixed": {"sampler_type": "uniform", "sampler_parameters": {"seed": 7}},
                "second": {"sampler_type": "gaussian", "sampler_parameters": {}},
            },
        }
    )
    parameters = resolve_seed(settings).environment_parameters
    assert parameters is not None
    assert parameters["constant"] == 1.0
    first, fixed, second = parameters["first"], parameters["fixed"], parameters["second"]
    assert isinstance(first, UniformSampler)
    assert isinstance(fixed, UniformSampler)
    assert isinstance(second, GaussianSampler)
    seeds = (first.sampler_parameters.seed, fixed.sampler_parameters.seed, second.sampler_parameters.seed)
    assert seeds == (101, 7, 102)


def test_a_resolved_run_stays_as_it_is() -> None:
    once = resolve_seed(RunSettings())
    assert resolve_seed(once) == once
