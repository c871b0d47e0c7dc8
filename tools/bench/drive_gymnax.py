"""Runs inside gymnax' environment: CartPole compiled by JAX, random actions, steps a second.

Arguments: copies, seconds. Prints environment steps a second. One call runs a hundred steps, as gymnax' users do.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import gymnax
import jax

STEPS = 100


def main() -> int:
    """Plays for the given number of seconds."""
    copies, seconds = int(sys.argv[1]), float(sys.argv[2])
    env, parameters = gymnax.make("CartPole-v1")

    def step(carry: Any, _: Any) -> tuple[Any, None]:
        key, state = carry
        key, own, stepping = jax.random.split(key, 3)
        actions = jax.random.randint(own, (copies,), 0, 2)
        _, state, *_ = jax.vmap(env.step, (0, 0, 0, None))(
            jax.random.split(stepping, copies), state, actions, parameters
        )
        return (key, state), None

    play = jax.jit(lambda carry: jax.lax.scan(step, carry, None, STEPS)[0])
    key = jax.random.PRNGKey(0)
    _, state = jax.vmap(env.reset, (0, None))(jax.random.split(key, copies), parameters)
    carry = jax.block_until_ready(play((key, state)))
    steps, begun = 0, time.perf_counter()
    while time.perf_counter() < begun + seconds:
        carry = jax.block_until_ready(play(carry))
        steps += STEPS
    print(steps * copies / (time.perf_counter() - begun))
    return 0


if __name__ == "__main__":
    sys.exit(main())
