"""What a version of com.unity.ml-agents can do, and in which order the numbers of its uncompressed images come.

A sensor of com.unity.ml-agents writes an image number by number through ``ObservationWriter``'s indexer, and
``TensorShapeExtensions.Index`` says where each goes. Shapes are [H, W, C] before 3.0 and [C, H, W] since; up to 4.0.0
numbers come as [H, W, C] all the same, while inference, which does not ask ``Index``, fills [C, H, W]. 4.0.1 mended
that ("Fixed tensor indexing to use correct CHW layout", #6239, in the package's CHANGELOG). A ``StackingSensor`` writes
through the indexer, whatever it stacks: an image of more channels. A sensor that hands over a list (``AddList``) writes
it as it is. PNG has one order only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from tau_trainer.specs import BehaviorSpec

if TYPE_CHECKING:
    from tau_trainer.settings import CollectionSettings

_MENDED: Final = (4, 0, 1)
_EITHER: Final = (4, 0, 0)
"""Development trees with and without the mend call themselves so; the release is without."""


def before_2(package: str) -> bool:
    """Whether a version of com.unity.ml-agents is one that refuses trainers newer than itself, and our models."""
    return package.startswith(("0.", "1."))


@dataclass(frozen=True, slots=True)
class ImageOrder:
    """How a sender's images lie. What is made of them is [C, H, W]."""

    declared_last: bool = False
    """Shapes are [H, W, C] where the dimensions' properties do not say what they are."""
    written_last: bool = False
    """Numbers of a shape [C, H, W] come as [H, W, C]; else every shape's come in its own order."""
    flat: tuple[str, ...] = ()
    """Sensors whose numbers come in the order of their shape all the same."""
    settled: bool = True
    """Whether :attr:`written_last` is known, and no guess."""

    @property
    def guess(self) -> str:
        """What is taken for granted, and what to do if it is not so; a sentence without its beginning."""
        read, other, choice = "channels first, as declared", "as height, width, channels", "channels_last"
        if self.written_last:
            read, other, choice = other, read, "declared"
        return (
            f"they are read {read}; if they come {other}, say --image-order {choice} (collection.image_order). PNG as "
            "the sensor's Compression Type has one order only"
        )


DECLARED: Final = ImageOrder()
"""In the order of their shape, as mlagents-envs reads them all."""
RECORDED: Final = ImageOrder(written_last=True, settled=False)
"""Of Unity's recordings, which do not hold the package's version: as 3.0.0 writes, unless somebody says otherwise."""


def order_of(package: str, choice: Literal["auto", "declared", "channels_last"], flat: tuple[str, ...]) -> ImageOrder:
    """The order of an engine with this version of com.unity.ml-agents; ``choice``: what the settings say of it."""
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
    """An engine's package, as far as it is known."""

    version: str = ""
    images: ImageOrder = DECLARED
    """How its images lie."""
    notes: list[str] = field(default_factory=list)
    """What it cannot do here, and what it leaves open, until it is taken out."""
    behaviors: int = 0
    """How many were looked at."""
    _guessed: bool = False
    """Whether it was said that the order of its images is a guess."""

    @property
    def old(self) -> bool:
        """Whether it refuses trainers newer than itself."""
        return before_2(self.version)

    @property
    def name(self) -> str:
        """Its version, as a part of a sentence."""
        return self.version or "of unknown version"

    def introduced(self, version: str, api: str, images: ImageOrder) -> None:
        """Its engine has said who it is."""
        self.version, self.images = version, images
        if self.old:
            self.notes.append(
                f"package {version} speaks API {api} and trains, but cannot load the model that comes of it (it knows "
                "version_number 2, the model has 3); upgrade com.unity.ml-agents to 2.0 or newer to use it in the game"
            )

    def look_at(self, specs: Mapping[str, BehaviorSpec], unsettled: Mapping[str, tuple[str, ...]]) -> None:
        """Say what is open about images now that there are new behaviors; ``unsettled``: sensors, by behavior."""
        sensors = sorted({sensor.name for spec in specs.values() for sensor in spec.observations})
        for name in () if self.behaviors else self.images.flat:
            if name not in sensors:
                self.notes.append(f"collection.flat_sensors names '{name}', but sensors are {', '.join(sensors)}")
        self.behaviors = len(specs)
        unclear = [(behavior, name) for behavior, names in unsettled.items() for name in names]
        if unclear and not self._guessed:
            self._guessed = True
            behavior, name = unclear[0]
            self.notes.append(
                f"sensor '{name}' of behavior '{specs[behavior].short_name}' sends uncompressed images, and their "
                f"order is open in package {self.name}: {self.images.guess}"
            )
