from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tau_trainer.models.lstm import LSTM
from tau_trainer.settings import MemorySettings
from tests.models.graphs import run_graph

INPUTS, STATE = 7, 10


@pytest.fixture
def block() -> LSTM:
    """Random throughout, biases too."""
    torch.manual_seed(0)
    made = LSTM(INPUTS, MemorySettings(memory_size=STATE))
    with torch.no_grad():
        made.input.bias.normal_()
    return made


def test_it_is_torchs_own_layer_with_the_state_in_one_piece(block: LSTM) -> None:
    library = torch.nn.LSTM(INPUTS, STATE // 2)
    with torch.no_grad():
        weights = block.input.weight, block.hidden.weight, block.input.bias, torch.zeros_like(block.input.bias)
        for parameter, values in zip(library.parameters(), weights, strict=True):
            parameter.copy_(values)
    x, state = torch.randn(4, 3, INPUTS), torch.randn(3, STATE)
    h, c = state.chunk(2, dim=1)
    wanted, (last_h, last_c) = library(x, (h[None].contiguous(), c[None].contiguous()))
    torch.testing.assert_close(block.along(x, state), wanted)
    for step in x:
        features, state = block(step, state)
    torch.testing.assert_close(features, wanted[-1])
    torch.testing.assert_close(state, torch.cat((last_h[0], last_c[0]), dim=1))


def test_initial_weights_are_ml_agents() -> None:
    block = LSTM(300, MemorySettings(memory_size=400))
    for weight in (block.input.weight, block.hidden.weight):
        for gate in weight.chunk(4):
            limit = math.sqrt(6.0 / (gate.shape[0] + gate.shape[1]))
            assert 0.99 * limit < float(gate.detach().abs().max()) <= limit
            assert float(gate.detach().std()) == pytest.approx(limit / math.sqrt(3.0), rel=0.02)
    assert [set(gate.tolist()) for gate in block.input.bias.chunk(4)] == [{0.0}, {2.0}, {0.0}, {0.0}]


def test_sequences_end_to_end_are_gone_through_step_by_step(block: LSTM) -> None:
    begins = torch.tensor([False, False, True, True, False, False, False, True])  # 2, 1, 4 and 1 steps
    x, state = torch.randn(8, INPUTS), torch.randn(8, STATE)
    found = block.unrolled(x, state, begins)
    running = state[:1]
    for row in range(8):
        features, running = block(x[row : row + 1], state[row : row + 1] if begins[row] else running)
        torch.testing.assert_close(found[row : row + 1], features, msg=f"row {row}")


def test_gradients_flow_back_to_the_beginning_of_their_own_sequence(block: LSTM) -> None:
    begins = torch.tensor([True, False, False, True, False])
    x, state = torch.randn(5, INPUTS, requires_grad=True), torch.randn(5, STATE, requires_grad=True)
    block.unrolled(x, state, begins)[2].sum().backward()  # type: ignore[no-untyped-call]
    for values, reached in ((x, [True, True, True, False, False]), (state, [True, False, False, False, False])):
        assert values.grad is not None
        assert values.grad.any(dim=1).tolist() == reached


def test_nodes_equal_the_block(block: LSTM) -> None:
    x, state = torch.randn(3, INPUTS), torch.randn(3, STATE)
    feed = {"x": x.numpy(), "state": state.numpy()}
    found = run_graph(lambda graph: block.write(graph, "x", "state"), feed)
    for nodes, wanted in zip(found, block(x, state), strict=True):
        np.testing.assert_allclose(nodes, wanted.detach().numpy(), atol=1e-6)


@pytest.mark.gpu
def test_on_an_accelerator_gradients_flow_through_time_as_on_the_cpu() -> None:
    settings = MemorySettings(memory_size=6, sequence_length=4)
    torch.manual_seed(1)
    here = LSTM(3, settings)
    there = LSTM(3, settings).to("cuda")
    there.load_state_dict(here.state_dict())
    x, state, begins = torch.randn(5, 3), torch.randn(5, 6), torch.tensor([True, False, False, True, False])
    for block, device in ((here, "cpu"), (there, "cuda")):
        block.unrolled(x.to(device), state.to(device), begins.to(device)).square().sum().backward()  # type: ignore[no-untyped-call]
    for wanted, found in zip(here.parameters(), there.parameters(), strict=True):
        assert wanted.grad is not None
        assert found.grad is not None
        torch.testing.assert_close(found.grad.cpu(), wanted.grad, rtol=1e-3, atol=1e-4)
