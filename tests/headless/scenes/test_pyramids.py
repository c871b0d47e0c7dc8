from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tau_trainer.headless.scenes.pyramids import (
    BACK,
    EPISODE,
    FORWARD,
    GOLD_ROOM,
    LEFT,
    RIGHT,
    ROOMS,
    SIZE,
    STAY,
    PyramidsScene,
)
from tau_trainer.specs import Actions, StepBatch
from tests.headless.scenes.playing import begin, step

if TYPE_CHECKING:
    from tests.headless.scenes.conftest import Play

AHEAD, BEHIND, SWITCH, GOLD = (slice(ROOMS + 2 + 3 * thing, ROOMS + 5 + 3 * thing) for thing in range(4))


def do(actions: Any) -> Actions:
    return Actions(np.zeros((len(actions), 0), np.float32), np.array(actions, np.int32).reshape(-1, 1))


def expert(batch: StepBatch) -> Actions:
    """To the switch, then to the gold, by what each agent sees."""
    actions = []
    for seen in batch.obs[0]:
        thing = GOLD if seen[GOLD][0] else BEHIND if seen[-1] else SWITCH if seen[SWITCH][0] else AHEAD
        _, across, along = np.round(seen[thing] * SIZE)
        sideways = RIGHT if across > 0 else LEFT
        actions.append(sideways if across else FORWARD if along > 0 else BACK if along < 0 else STAY)
    return do(actions)


def test_what_agents_see_is_all_that_the_best_policy_needs(play: Play) -> None:
    played = play(PyramidsScene(agents=100, seed=1), expert, 300)
    assert len(played.returns) > 400
    assert set(played.returns) == {2.0}
    assert 45 < np.mean(played.lengths) < 65
    assert not any(played.truncated)


def test_chance_presses_the_switch_hardly_ever_and_never_finds_the_gold(play: Play) -> None:
    generator = np.random.default_rng(0)
    played = play(PyramidsScene(agents=2000, seed=2), lambda batch: do(generator.integers(0, 5, len(batch))), EPISODE)
    assert len(played.returns) == 2000
    assert set(played.returns) == {0.0}
    pressed = np.concatenate([batch.terminals.obs[0][:, -1] for batch in played.batches])
    assert pressed.mean() < 0.002


def test_a_room_is_left_through_its_door_alone() -> None:
    scene = PyramidsScene(agents=3)
    begin(scene)
    scene._place[:] = [(0, SIZE - 1), (1, SIZE - 1), (1, SIZE - 1)]  # the first door is at 0
    batch = step(scene, do([FORWARD, FORWARD, STAY]))
    assert scene._room.tolist() == [1, 0, 0]
    assert scene._place.tolist() == [[0, 0], [1, SIZE - 1], [1, SIZE - 1]]
    seen = batch.obs[0]
    np.testing.assert_array_equal(seen[:, :ROOMS], np.eye(ROOMS)[[1, 0, 0]])
    np.testing.assert_allclose(seen[0, BEHIND], [1.0, 0.0, -1.0 / SIZE])
    np.testing.assert_allclose(seen[0, AHEAD], [1.0, 4.0 / SIZE, 1.0])
    np.testing.assert_allclose(seen[1, AHEAD], [1.0, -1.0 / SIZE, 1.0 / SIZE])
    np.testing.assert_array_equal(seen[1, BEHIND], np.zeros(3))
    scene._room[1], scene._place[1] = 1, (1, 0)  # beside the door behind
    step(scene, do([BACK, BACK, LEFT]))
    assert scene._room.tolist() == [0, 1, 0]
    assert scene._place[1].tolist() == [1, 0]
    scene._room[1], scene._place[1] = 0, (1, SIZE - 1)
    step(scene, do([STAY, RIGHT, STAY]))
    assert scene._room.tolist() == [0, 0, 0]
    assert scene._place.tolist() == [[0, SIZE - 1], [2, SIZE - 1], [0, SIZE - 1]]


def test_the_gold_is_there_once_the_switch_was_pressed() -> None:
    scene = PyramidsScene(agents=2, seed=3)
    batch = begin(scene)
    assert not batch.obs[0][:, GOLD].any()
    scene._gold[:], scene._switch[:], scene._room[:] = (4, 4), (2, 2), (GOLD_ROOM, ROOMS - 1)
    scene._place[:] = [(4, 3), (2, 3)]
    batch = step(scene, do([FORWARD, BACK]))
    assert len(batch.terminals) == 0, "nobody has pressed the switch"
    np.testing.assert_array_equal(batch.obs[0][:, -1], [0.0, 1.0])
    scene._room[1], scene._place[1] = GOLD_ROOM, (3, 4)
    np.testing.assert_allclose(scene.observe()[0][1, GOLD], [1.0, 1.0 / SIZE, 0.0])
    batch = step(scene, do([STAY, RIGHT]))
    assert (batch.terminals.agent_ids.tolist(), batch.terminals.reward.tolist()) == ([1], [2.0])
    assert not batch.terminals.truncated[0]
    assert not batch.obs[0][1, -1], "the next episode begins with the switch as it was"
