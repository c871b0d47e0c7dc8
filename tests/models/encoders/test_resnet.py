from __future__ import annotations

import torch
from torch.nn.functional import conv2d, max_pool2d, silu

from tau_trainer.models.encoders.resnet import ResNet
from tests.models.encoders.images import check, images, made

SHAPE = 3, 20, 31


def test_layers_are_those_of_ml_agents() -> None:
    encoder = made("resnet", SHAPE)
    assert isinstance(encoder, ResNet)
    features = check(encoder, SHAPE)
    values = dict(encoder.double().named_parameters())

    def convolved(x: torch.Tensor, name: str) -> torch.Tensor:
        return conv2d(x, values[f"{name}.weight"], values[f"{name}.bias"], padding=1)

    x = images(SHAPE).double() / 255 - 0.5
    for stack, channels in enumerate((16, 32, 32)):
        x = max_pool2d(convolved(x, f"stacks.{stack}.convolution"), 3, 2)
        assert x.shape[1] == channels
        for block in range(2):
            name = f"stacks.{stack}.blocks.{block}"
            x = x + convolved(silu(convolved(silu(x), f"{name}.first")), f"{name}.second")
    x = silu(x).flatten(1) @ values["dense.weight"].T + values["dense.bias"]
    torch.testing.assert_close(torch.relu(x).float(), features, rtol=1e-4, atol=1e-5)
    assert len(values) == 2 * (3 * 5 + 1)


def test_the_features_do_not_depend_on_how_pixels_lie_in_memory() -> None:
    encoder, x = made("resnet", SHAPE), images(SHAPE)
    turned = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    torch.testing.assert_close(encoder(turned), encoder(x))
