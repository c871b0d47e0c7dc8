"""Features of com.unity.ml-agents' versions, and the order of their uncompressed image data.

A sensor of com.unity.ml-agents writes an image value by value through ``ObservationWriter``'s indexer, and
``TensorShapeExtensions.Index`` computes each position. Shapes are [H, W, C] before 3.0 and [C, H, W] since then. But up
to 4.0.0 the values still come as [H, W, C], while inference, which does not use ``Index``, fills [C, H, W]. 4.0.1 fixed
that ("Fixed tensor indexing to use correct CHW layout", #6239, in the package's CHANGELOG). A ``StackingSensor`` always
writes through the indexer, as an image of more channels. A sensor that passes a list (``AddList``) writes it unchanged.
PNG has only one order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from tau_trainer.specs import Behaviors

if TYPE_CHECKING:
    from tau_trainer.settings import CollectionSettings

_MENDED: Final = (4, 0, 1)
_EITHER: Final = (4, 0, 0)
"""Version of development trees with and without the fix; the release does not have it."""


def before_2(package: str) -> bool:
    """Whether this version of com.unity.ml-agents refuses newer trainers and cannot load our models."""
    return package.startswith(("0.", "1."))


@dataclass(frozen=True, slots=True)
class ImageOrder:
    """The order of a sender's image data. Decoded images are [C, H, W]."""

    declared_last: bool = False
    """Whether shapes are [H, W, C] if the dimensions' properties do not tell."""
    written_last: bool = False
    """Whether values of a shape [C, H, W] come as [H, W, C]; else values come in the order of the shape."""
    flat: tuple[str, ...] = ()
    """Sensors whose values still come in the order of their shape."""
    settled: bool = True
    """Whether :attr:`written_last` is known, not guessed."""

    @property
    def guess(self) -> str:
        """The assumed order and what to do if it is wrong, as the end of a sentence."""
        read = "channels first, as declared"
        other = "as height, width, channels"
        choice = "channels_last"
        if self.written_last:
            read, other, choice = other, read, "declared"
        return (
            f"they are read {read}; if they come {other}, set --image-order {choice} (collection.image_order). If the "
            "sensor's Compression Type is PNG, there is only one order"
        )


DECLARED: Final = ImageOrder()
"""The order of the shape, as mlagents-envs always reads images."""
RECORDED: Final = ImageOrder(written_last=True, settled=False)
"""Default order of Unity's recordings, which do not contain the package's version: as 3.0.0 writes."""


def order_of(package: str, choice: Literal["auto", "declared", "channels_last"], flat: tuple[str, ...]) -> ImageOrder:
    """The order of an engine with this version of com.unity.ml-agents; ``choice``: the run's setting."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", package)
    version = tuple(map(int, found.groups())) if found else None
    old = before_2(package) or package.startswith("2.")
    last, settled = choice == "channels_last", True
    if choice == "auto":
        last = not old and version is not None and version < _MENDED
        settled = version is not None and version != _EITHER
    return ImageOrder(old, last, flat, settled)


def order_of_recordings(settings: CollectionSettings) -> ImageOrder:
    """The order of Unity's recordings, by the settings of a run."""
    choice = settings.image_order
    return ImageOrder(False, choice != "declared", settings.flat_sensors, choice != "auto")


@dataclass(slots=True)
class Package:
    """Known facts about an engine's package."""

    version: str = ""
    images: ImageOrder = DECLARED
    """Order of its image data."""
    notes: list[str] = field(default_factory=list)
    """Notes on unsupported features and open questions; the reader removes them."""
    behaviors: int = 0
    """Number of behaviors that were checked."""
    _guessed: bool = False
    """Whether the user was told that the order of its images is a guess."""

    @property
    def old(self) -> bool:
        """Whether it refuses newer trainers."""
        return before_2(self.version)

    @property
    def name(self) -> str:
        """Its version, as a part of a sentence."""
        return self.version or "of unknown version"

    def look_at(self, specs: Behaviors, unsettled: Mapping[str, tuple[str, ...]]) -> None:
        """Add notes on the image order of new behaviors; ``unsettled``: sensors with a guessed order, by behavior."""
        sensors = sorted({sensor.name for spec in specs.values() for sensor in spec.observations})
        for name in () if self.behaviors else self.images.flat:
            if name not in sensors:
                self.notes.append(f"collection.flat_sensors names '{name}', but the sensors are {', '.join(sensors)}")
        self.behaviors = len(specs)
        unclear = [(behavior, name) for behavior, names in unsettled.items() for name in names]
        if unclear and not self._guessed:
            self._guessed = True
            behavior, name = unclear[0]
            self.notes.append(
                f"sensor '{name}' of behavior '{specs[behavior].short_name}' sends uncompressed images, and their "
                f"order is not known in package {self.name}: {self.images.guess}"
            )
