from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from tau_trainer.bridge.protocol import BASE_PORT
from tau_trainer.errors import TauError
from tau_trainer.search.elsewhere import Places, TrialElsewhere
from tau_trainer.search.trial import Outcome
from tests.search.conftest import quick


def test_trials_at_a_time_have_ports_of_their_own() -> None:
    candidates = [quick(env_settings__num_envs=3), quick()]
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        places = Places([quick(env_settings__num_envs=3, env_settings__base_port=taken)], 2)
        with places.take() as one, places.take() as two:
            assert one > taken
            assert two >= one + 3
        with places.take() as again:
            assert again in (one, two)
    with Places(candidates, 1).take() as port:
        assert port >= BASE_PORT
    with pytest.raises(TauError, match="free ports"):
        Places([quick(env_settings__num_envs=3, env_settings__base_port=65530)], 5)


def test_a_process_that_is_killed_is_told_of() -> None:
    def told(_: Outcome) -> None:
        assert trial.elsewhere.process is not None
        beyond = os.getsid(trial.elsewhere.process.pid) != os.getsid(0)
        trial.elsewhere.process.kill()
        assert beyond, "Ctrl-C at the terminal does not reach it"

    trial = TrialElsewhere(quick(), 10**7, 5005, told)
    with pytest.raises(TauError, match="the process of a trial ended with exit code -9"):
        trial.run()


def test_it_ends_with_whoever_asked() -> None:
    """The end of its input is the end of the searcher."""
    command = [sys.executable, "-P", "-m", "tau_trainer.search.elsewhere"]
    trial = TrialElsewhere(quick(), 10**7, 5005)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        trial.elsewhere.ask(process.stdin)
        try:
            assert b"progress" in process.stdout.readline(), "it is under way"
            process.stdin.close()
            assert b'"ending": "stopped"' in process.stdout.read()
            assert process.wait() == 0
        finally:
            process.kill()
