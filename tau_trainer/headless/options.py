"""Everything that can be said to the headless engine on its command line, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tau_trainer.headless.scenes.faulty import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlessOptions:
    """See ``python -m tau_trainer.headless --help`` for each; None means the scene's own default."""

    port: int | None = None
    log_file: Path | None = None
    scene: str = "tau"
    agents: int | None = None
    seed: int | None = None
    max_decisions: int | None = None
    step_ms: float = 0.0
    spin_ms: float = 0.0
    connect_seconds: float = 10.0
    report_file: Path | None = None
    report_seconds: float = 1.0
    fault: str | None = None
    fault_after: int = 10
    fault_seconds: float = 5.0
    fault_once: Path | None = None
    tau_profile: str = "tau3"
    tau_data: str | None = None
    tau_target_sensor: bool = False
    tau_reward: str | None = None
    tau_columns: int | None = None
    tau_threshold: float = 0.1
    tau_reward_threshold: float = -100.0
    tau_faithful_terminal: bool = False
    tau_split: Literal["train", "evaluation"] = "train"
    write_build: Path | None = None
    unknown: tuple[str, ...] = ()
    """Arguments that this engine does not know and ignores, as a Unity build does."""

    def make_fault(self) -> Fault | None:
        """The fault to have, if any; the scene ``faulty`` crashes unless told otherwise."""
        kind = self.fault or ("crash" if self.scene == "faulty" else None)
        if kind is None:
            return None
        from tau_trainer.headless.scenes.faulty import Fault, FaultKind

        return Fault(FaultKind(kind), self.fault_after, self.fault_seconds, self.fault_once)
