from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from tau_trainer.bridge.codec import encode_close, encode_reply
from tau_trainer.bridge.engine_codec import encode_engine_message
from tau_trainer.bridge.protocol import Command
from tau_trainer.errors import EngineError
from tau_trainer.headless import http2
from tau_trainer.headless.link import TrainerClient, TrainerGoneError
from tests.headless.conftest import FakeTrainer


def test_a_connection_that_is_used_up_is_renewed(trainer: FakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 2^30 calls a connection has no stream numbers left; here after three."""
    monkeypatch.setattr(http2, "_LAST_STREAM", 5)
    reply = encode_reply(Command.STEP)
    with closing(TrainerClient(trainer.port)) as link:
        for number in range(8):
            trainer.send(reply)
            answer = link.connect(b"", 5.0) if number == 0 else link.exchange(b"")
            assert answer == reply


def test_it_waits_for_a_trainer_that_starts_late(closed_port: int) -> None:
    late: list[FakeTrainer] = []

    def start() -> None:
        time.sleep(0.3)
        late.append(FakeTrainer(closed_port))
        late[0].send(encode_close())

    thread = threading.Thread(target=start)
    thread.start()
    with closing(TrainerClient(closed_port)) as link:
        assert link.connect(encode_engine_message(), 20.0) == encode_close()
    thread.join()
    late[0].stop()


def test_nobody_listens_and_nobody_to_say_goodbye_to(closed_port: int) -> None:
    with closing(TrainerClient(closed_port)) as link:
        with pytest.raises(EngineError, match=f"no trainer listens on localhost:{closed_port}"):
            link.connect(b"", 0.0)
        link.goodbye()
        link.wait_until_gone()


def test_a_trainer_that_is_gone(trainer: FakeTrainer) -> None:
    with closing(TrainerClient(trainer.port)) as link:
        trainer.send(encode_reply(Command.STEP))
        link.connect(b"", 5.0)
        trainer.stop()
        link.wait_until_gone()
        with pytest.raises(TrainerGoneError):
            link.exchange(b"")
        link.goodbye()
