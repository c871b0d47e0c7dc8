"""The scenes of the headless engine, by name.

A scene's module is imported only when the scene is played, so that the engine starts fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tau_trainer.errors import SettingsError
from tau_trainer.headless.parameters import EnvironmentParameters

if TYPE_CHECKING:
    from tau_trainer.headless.args import HeadlessOptions
    from tau_trainer.headless.scene import Scene
    from tau_trainer.headless.scenes.tau import TauRules

MOST_AGENTS = 1_000_000
"""Largest number of agents that the engine accepts; a larger one is probably a typing error."""


_PLAYED = {
    "tau": ("tau", "TauScene", 32),
    "balance": ("balance", "BalanceScene", 12),
    "basic": ("basic", "BasicScene", 1),
    "gridworld": ("gridworld", "GridWorldScene", 9),
    "hallway": ("hallway", "HallwayScene", 16),
    "foodcollector": ("foodcollector", "FoodCollectorScene", 5),
    "walljump": ("walljump", "WallJumpScene", 16),
    "sorter": ("sorter", "SorterScene", 16),
    "dungeon": ("dungeon", "DungeonScene", 12),
    "pyramids": ("pyramids", "PyramidsScene", 16),
    "soccer": ("soccer", "SoccerScene", 16),
    "faulty": ("balance", "BalanceScene", 12),
}
"""Module, class and default number of agents of each scene. ``faulty`` is ``balance`` in an engine that fails."""
USUAL_AGENTS = {name: agents for name, (_, _, agents) in _PLAYED.items()}
SCENES = tuple(_PLAYED)
"""Names of all scenes."""


def create_scene(
    options: HeadlessOptions, parameters: EnvironmentParameters, *, seed: int = 0, areas: int = 1
) -> Scene:
    """Create the scene that ``options`` names, seeded.

    ``parameters`` are the environment parameters of the trainer's first reply: ``num_agents``, ``seed`` and (scene
    ``tau``) ``profile`` and ``target_sensor`` take precedence over ``options``. ``seed`` is the trainer's; it is used
    if neither ``parameters`` nor ``options`` give one. The number of agents is multiplied by ``areas``, as with
    ML-Agents' training areas.

    Raises SettingsError or DataError.
    """
    module, kind, usual = _PLAYED[options.scene]
    agents = int(parameters.get("num_agents", options.agents or usual)) * max(areas, 1)
    if not 1 <= agents <= MOST_AGENTS:
        raise SettingsError(
            f"environment parameter `num_agents` and the number of areas ask for {agents} agents; "
            f"give 1 to {MOST_AGENTS}."
        )
    seed = int(parameters.get("seed", options.seed if options.seed is not None else seed))
    if options.scene == "tau":
        from tau_trainer.headless.scenes.tau import TauScene, resolve_profile
        from tau_trainer.tau.dataset import load_dataset

        return TauScene(
            dataset=load_dataset(options.tau_data),
            profile=resolve_profile(options.tau_profile, parameters),
            agents=agents,
            seed=seed,
            rules=tau_rules(options),
            target_sensor=bool(parameters.get("target_sensor", options.tau_target_sensor)),
        )
    scene: Scene = getattr(importlib.import_module(f"{__name__}.{module}"), kind)(
        agents=agents, seed=seed, **_limit(options)
    )
    return scene


def check_scene(options: HeadlessOptions) -> None:
    """Raise the errors that :func:`create_scene` raises for ``options``, before a trainer waits for this engine."""
    create_scene(options, EnvironmentParameters())


def tau_rules(options: HeadlessOptions) -> TauRules:
    """The Tau scene's rules, from the command line."""
    from tau_trainer.headless.scenes.tau import TauRules

    return TauRules(
        reward=options.tau_reward,
        columns=options.tau_columns,
        threshold=options.tau_threshold,
        reward_threshold=options.tau_reward_threshold,
        faithful_terminal=options.tau_faithful_terminal,
        split=options.tau_split,
        **_limit(options),
    )


def _limit(options: HeadlessOptions) -> dict[str, int]:
    """The requested limit of episodes; empty if there is none, so that the scene uses its default."""
    return {} if options.max_decisions is None else {"max_decisions": options.max_decisions}
