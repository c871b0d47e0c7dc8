"""The values that a stranger's settings may have on this machine, for every key of a settings file.

The list is :data:`SETTINGS`, structured like the file. A key with a :class:`Stays` is kept if its value passes
the check; a key with a :class:`Goes` is always left out; a key that is not in the list is unknown and left out, too.
Add every new setting here as one or the other; ``tests/sharing/test_allowed.py`` fails until you do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tau_trainer import plugins
from tau_trainer.settings.engines import ATTACH, EDITOR, GODOT, HEADLESS_PREFIX, HEADLESS_SCENES

_LONGEST_NAME = _LONGEST_LIST = 1000
_WORD = re.compile(r"\w{1,60}", re.ASCII)
_NUMBER = re.compile(r"[-+.0-9eE_]{1,60}")
_WORLDS = tuple(
    f"tau_trainer.{folder}.worlds:{name}-v0" for folder in ("games", "envs") for name in ("GoalWorld", "BitFlipping")
)
"""Also by the name of their module before it moved."""
_PROFILE = re.compile(r"tau3|tau384|\d{1,2}x\d{1,4}")


@dataclass(frozen=True, slots=True)
class Stays:
    """A value that is kept if it ``holds``."""

    holds: Callable[[Any], bool]
    why: str = "has a value that a shared run may not contain"
    """Reason for leaving it out if the check fails."""
    asked: bool = False
    """Whether the run depends on the value; if so, :data:`.WITHHELD` replaces it, and --resume asks for it."""


@dataclass(frozen=True, slots=True)
class Goes:
    """A value that is always left out."""

    why: str
    asked: bool = False
    """Same as in :class:`Stays`."""
    usual: object = None
    """The default value, which is left out without a note."""
    quiet: bool = False
    """Whether to leave it out without a note."""


Rule = Stays | Goes | Mapping[str, "Rule"]
"""Rule of a value, or of the keys of a mapping; ``*`` is any key. It also applies to mappings in a list."""


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= _LONGEST_LIST


def is_number(value: object) -> bool:
    """A number, true, false, null, or the text of a number, which cannot name anything."""
    return value is None or isinstance(value, bool | int | float) or (
        isinstance(value, str) and _NUMBER.fullmatch(value) is not None
    )  # fmt: skip


def is_numbers(value: Any, depth: int = 3) -> bool:
    """A number, or nested lists of numbers."""
    return is_number(value) or (depth > 0 and _is_list(value) and all(is_numbers(v, depth - 1) for v in value))


def is_word(value: object) -> bool:
    """A number, or one word: neither a path, nor an address, nor ``module:attribute``."""
    return is_number(value) or (isinstance(value, str) and _WORD.fullmatch(value) is not None)


def is_name(value: object) -> bool:
    """Text that is only shown or compared."""
    return is_number(value) or (isinstance(value, str) and len(value) <= _LONGEST_NAME)


def are_names(value: Any) -> bool:
    """A list of such texts."""
    return value is None or (_is_list(value) and all(map(is_name, value)))


def are_layers(value: Any, depth: int = 8) -> bool:
    """Words, in lists and mappings: ``[64, {repeat: 2, net_arch: [128, b]}, r32]``."""
    if _is_list(value) and depth:
        return all(are_layers(part, depth - 1) for part in value)
    if isinstance(value, Mapping) and depth:
        return all(is_word(key) and are_layers(part, depth - 1) for key, part in value.items())
    return is_word(value)


def is_profile(value: object) -> bool:
    """A form of the Tau task."""
    return value is None or (isinstance(value, str) and _PROFILE.fullmatch(value) is not None)


def _own(kind: plugins.Kind, prefix: str = "", *more: str) -> Callable[[Any], bool]:
    names = {name.removeprefix(prefix) for name in plugins.own(kind) if name.startswith(prefix)} | {*more}
    return lambda value: isinstance(value, str) and value in names


def is_played_here(value: object) -> bool:
    """The editor, attach:MAX, a headless scene, our own batched environment, or one of Gymnasium's own."""
    if value is None or value == EDITOR:
        return True
    kind, _, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind == GODOT:
        return is_played_here(name or None)
    if kind == ATTACH:
        return not name or is_number(name)
    if f"{kind}:" == HEADLESS_PREFIX:
        return name in HEADLESS_SCENES
    return (kind == "batched" and name in plugins.own("batched")) or (kind == "gym" and _is_of_gymnasium(name))


def _is_of_gymnasium(name: str) -> bool:
    """Whether Gymnasium itself registers this id, with or without a version, or it is one of our worlds."""
    if name in _WORLDS:
        return True
    import gymnasium

    found = [
        spec
        for spec in gymnasium.registry.values()
        if name in (spec.id, f"{spec.namespace}/{spec.name}" if spec.namespace else spec.name)
    ]
    return bool(found) and all(str(spec.entry_point).startswith("gymnasium.envs.") for spec in found)


NUMBER, NUMBERS, WORD, NAME = Stays(is_number), Stays(is_numbers), Stays(is_word), Stays(is_name)
NAMES, LAYERS = Stays(are_names), Stays(are_layers)


def _numbers(keys: str) -> dict[str, Rule]:
    return dict.fromkeys(keys.split(), NUMBER)


def _words(keys: str) -> dict[str, Rule]:
    return dict.fromkeys(keys.split(), WORD)


FILE, CODE = "names a file", "names code"
DEMONSTRATIONS = Goes(FILE, asked=True)
HERE = "is set on each machine"

NETWORK: Rule = {
    **_numbers("normalize hidden_units num_layers action_levels deterministic"),
    "net_arch": LAYERS,
    "vis_encode_type": Stays(_own("encoders", "visual:"), CODE, asked=True),
    "goal_conditioning_type": WORD,
    "memory": {
        **_numbers("memory_size sequence_length"),
        "type": Stays(_own("memories"), CODE, asked=True),
    },
}
SCHEDULE: Rule = {"mode": WORD, **_numbers("initial final rate")}
"""Rule of a schedule that is a mapping; numbers and points are :data:`NUMBERS`."""
EXPLORATION: Rule = {
    **_words("type annealing"),
    **_numbers(
        "n_steps_annealing eps_min initial_eps min_eps decay_rate tau C temperature mu sigma sigma_min theta dt"
    ),
    "clip": NUMBERS,
    "eps": SCHEDULE,
}
HYPERPARAMETERS: Rule = {
    **_numbers(
        "batch_size buffer_size weight_decay layer_statistics lambd num_epoch max_grad_norm target_kl shared_critic "
        "shrink_at buffer_init_steps save_replay_buffer terminal_share n_step tau inverse_temperature largest_weight "
        "expectile init_entcoef least_entcoef target_update_interval double dueling noisy clip_reward clip_td_err "
        "num_tau_samples num_tau_prime_samples num_quantile_samples quantile_embedding_dim kappa cvar policy_delay "
        "target_policy_noise target_noise_clip group_size vf_loss_coeff normalize_return"
    ),
    **_words(
        "learning_rate_schedule optimizer beta_schedule epsilon_schedule normalize_advantage updates_per_buffer loss "
        "entropy_coeff_schedule steps_per_update reward_signal_steps_per_update"
    ),
    **dict.fromkeys(("learning_rate", "beta", "epsilon", "entropy_coeff"), SCHEDULE),
    "exploration": EXPLORATION,
    "prioritized": {**_numbers("alpha beta_0 beta_final n_opts_final"), "normalize": WORD},
    "hindsight": {
        "strategy": WORD,
        "k": NUMBER,
        **dict.fromkeys(("achieved", "goal"), NAME),
        "distance": _numbers("threshold reached missed terminates"),
        "reward_done": Goes(CODE, asked=True),
    },
}
SIGNAL: Rule = {**_numbers("gamma strength learning_rate encoding_size num_epoch use_actions use_vail"),
                "network_settings": NETWORK, "demo_path": DEMONSTRATIONS}  # fmt: skip
BEHAVIOR: Rule = {
    "trainer_type": Stays(_own("trainers"), CODE, asked=True),
    "hyperparameters": HYPERPARAMETERS,
    "network_settings": NETWORK,
    "reward_signals": {"*": SIGNAL},
    **_numbers(
        "keep_checkpoints checkpoint_interval even_checkpoints max_steps criterion trial_count save_best_only "
        "save_param_only time_horizon threaded held_out evaluation_episodes to_train gamma"
    ),
    "summary_freq": WORD,
    "self_play": {
        **_numbers("save_steps team_change swap_steps window play_against_latest_model_ratio initial_elo"),
        "opponents": Goes("names files"),
    },
    "behavioral_cloning": {
        **_numbers("strength steps batch_size num_epoch samples_per_update"),
        "demo_path": DEMONSTRATIONS,
    },
    "demo_path": DEMONSTRATIONS,
    "init_path": Goes(FILE),
    "agents": NAMES,
    "player": NAME,
}
SAMPLER: dict[str, Rule] = {
    "sampler_type": WORD,
    "sampler_parameters": {**_numbers("seed min_value max_value mean st_dev value"), "intervals": NUMBERS},
}
SETTINGS: Mapping[str, Rule] = {
    "default_settings": BEHAVIOR,
    "behaviors": {"*": BEHAVIOR},
    "env_settings": {
        "env_path": Stays(is_played_here, "names a program or a package", asked=True),
        "env_args": Goes("depends on its environment"),  # see `arguments_kept`
        "base_port": Goes(HERE, usual=5005),
        **_numbers(
            "num_envs num_areas timeout_wait seed max_lifetime_restarts restarts_rate_limit_n "
            "restarts_rate_limit_period_s"
        ),
    },
    "engine_settings": _numbers(
        "width height quality_level time_scale target_frame_rate capture_frame_rate no_graphics no_graphics_monitor"
    ),
    "environment_parameters": {
        "*": {
            **SAMPLER,
            "curriculum": {
                "name": NAME,
                "value": SAMPLER,
                "completion_criteria": {
                    "behavior": NAME,
                    "measure": WORD,
                    **_numbers("threshold min_lesson_length signal_smoothing require_reset"),
                },
            },
        }
    },
    "checkpoint_settings": {
        "export": WORD,
        "initialize_from": Goes("names another run"),
        **dict.fromkeys(
            ("run_id", "results_dir", "load_model", "resume", "force", "train_model", "inference"),
            Goes(HERE, quiet=True),
        ),
    },
    "torch_settings": {"device": Goes(HERE, usual="cpu")},
    "debug": Goes(HERE, quiet=True),
    "tau": {
        "profile": Stays(is_profile),
        "data": Goes(FILE, asked=True),
        **_numbers("pairs max_concurrent agents evaluate"),
        "policy": WORD,
        "reward": {
            **_words("source formula credit predicate values aggregate learn_from"),
            **_numbers("threshold columns success_threshold success_distance window"),
        },
    },
    "collection": {
        **_numbers("deterministic max_policy_age action_repeat truncate_after"),
        **_words("learner image_order transport"),
        "flat_sensors": NAMES,
        "listen": Goes("opens this machine to others"),
        **dict.fromkeys(("tls_cert", "tls_key"), Goes(FILE)),
    },
    "callbacks": Goes(CODE),
    "recorders": Goes("sends figures of this machine to others"),
    **_words("execution strategy compile"),
    "async_trainer": {
        **_numbers(
            "actors n_buffer channel_capacity max_policy_lag max_opts sync_interval eval_interval eval_episodes"
        ),
        "samples_per_update": NUMBERS,
        "mode": WORD,
        "exploration": EXPLORATION,
    },
    **_numbers("devices max_staleness"),
    "cluster": Goes("names other machines"),
    "sweep": Goes("describes other runs"),
    "environment": {
        "name": Stays(_own("batched"), CODE, asked=True),
        "num_envs": NUMBER,
        "starts": WORD,
        "pool": NUMBER,
        "arguments": {
            **_numbers(
                "num_taggers grid_length episode_length wall_hit_penalty tag_reward_for_tagger tag_penalty_for_runner "
                "step_cost_for_tagger use_full_observation num_runners max_speed skill_level_runner skill_level_tagger "
                "max_acceleration min_acceleration max_turn min_turn num_acceleration_levels num_turn_levels "
                "edge_hit_penalty num_other_agents_observed tagging_distance step_penalty_for_tagger "
                "step_reward_for_runner end_of_game_reward_for_runner runner_exits_game_after_tagged limit columns "
                "threshold max_decisions reward_threshold faithful_terminal dimension max_num_points max_value "
                "scale_observation reposition exact reward_based_on_point_reduction invalid_move_penalty "
                "step_threshold value_threshold"
            ),
            **_words("split reward role opponent variant rewards"),
            "profile": Stays(is_profile),
            "weights": NUMBERS,
            "sides": NAMES,
            "data": Goes(FILE, asked=True),
        },
    },
    "evaluation": _numbers("interval episodes max_episode_steps trace"),
}
"""Every key of a settings file."""

HEADLESS_ARGUMENTS: Mapping[str, Callable[[Any], bool] | None] = {
    **dict.fromkeys(("-nographics", "-batchmode", "--tau-target-sensor", "--tau-faithful-terminal"), None),
    **dict.fromkeys(
        (
            *("--agents", "--seed", "--max-decisions", "--step-ms", "--spin-ms", "--connect-seconds", "--tau-agents"),
            *("--tau-columns", "--tau-threshold", "--tau-reward-threshold"),
        ),
        is_number,
    ),
    "--tau-profile": is_profile,
    **dict.fromkeys(("--tau-reward", "--tau-split"), is_word),
}
"""Arguments of the headless engine with the check of their values; None: a flag without a value."""
GYMNASIUM_ARGUMENTS = (
    "continuous domain_randomize enable_wind fickle_passenger fickle_probability g goal_velocity gravity hardcore "
    "is_rainy is_slippery lap_complete_percent map_name natural rainy_probability reward_schedule sab success_rate "
    "sutton_barto_reward turbulence_power wind_power max_episode_steps "
    # of Gymnasium's MuJoCo environments
    "frame_skip forward_reward_weight ctrl_cost_weight contact_cost_weight impact_cost_weight reward_near_weight "
    "reward_dist_weight reward_control_weight uph_cost_weight healthy_reward terminate_when_unhealthy "
    "healthy_z_range healthy_angle_range healthy_state_range contact_force_range contact_cost_range "
    "impact_cost_range reset_noise_scale use_contact_forces exclude_current_positions_from_observation "
    "include_cinert_in_observation include_cvel_in_observation include_qfrc_actuator_in_observation "
    "include_cfrc_ext_in_observation"
)
"""Arguments of Gymnasium's own environments: numbers, and the names of maps."""


def arguments_kept(played: object, words: object) -> tuple[list[str], list[str]]:
    """The ``env_args`` that are allowed for the environment ``played``, and the others."""
    known = [str(word) for word in words] if isinstance(words, list) else [str(words)]
    kind = str(played).partition(":")[0]
    if kind == "gym":
        kept = [word for word in known if _is_gymnasium_argument(word)]
        return kept, [word for word in known if word not in kept]
    if kind == HEADLESS_PREFIX.rstrip(":"):
        return _headless_arguments(known)
    return [], known


def _is_gymnasium_argument(word: str) -> bool:
    name, equals, text = word.partition("=")
    if not equals or name not in GYMNASIUM_ARGUMENTS.split() or len(text) > 200:
        return False
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError, TypeError, RecursionError):
        return False
    return is_numbers(value) or (name == "map_name" and is_word(value))


def _headless_arguments(words: list[str]) -> tuple[list[str], list[str]]:
    kept, left = list[str](), list[str]()
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        flag, equals, value = word.partition("=")
        holds = HEADLESS_ARGUMENTS.get(flag, is_word)
        taken = [word]
        if not equals and holds is not None and waiting and not waiting[0].startswith("--"):
            value = waiting.pop(0)
            taken.append(value)
        known = flag in HEADLESS_ARGUMENTS and (not equals if holds is None else bool(value) and holds(value))
        (kept if known else left).extend(taken)
    return kept, left
