from __future__ import annotations

import torch

from tau_trainer.models.value_head import ValueHead


def test_streams_stand_side_by_side() -> None:
    head = ValueHead(30, {"extrinsic": 3, "curiosity": 1})
    with torch.no_grad():
        head.bias.copy_(torch.arange(4.0))
        head.weight.normal_(generator=torch.Generator().manual_seed(0))
    x = torch.randn(6, 30)
    torch.testing.assert_close(head(x), x @ head.weight + torch.arange(4.0))
    assert head.streams == {"extrinsic": 3, "curiosity": 1}


def test_nothing_is_known_at_first() -> None:
    assert not ValueHead(5, {"extrinsic": 2})(torch.randn(3, 5)).any()
