from __future__ import annotations

import torch

from tests.models.encoders.images import check, images, made

SHAPE = 2, 7, 4


def test_it_is_one_layer_over_all_pixels() -> None:
    encoder = made("fully_connected", SHAPE)
    features = check(encoder, SHAPE)
    x = images(SHAPE).flatten(1) / 255 @ encoder.dense.weight.T + encoder.dense.bias
    torch.testing.assert_close(torch.where(x > 0, x, 0.01 * x).detach(), features)
    assert {name for name, _ in encoder.named_parameters()} == {"dense.weight", "dense.bias"}
