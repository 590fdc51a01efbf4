"""What the tables of edits are written in."""

from __future__ import annotations

from typing import Final

from airflow_streaming.gates.findings import GateDecision
from tests.system.edits.edit import Base, Edit

YES: Final = GateDecision.ALLOWED
YES_BUT: Final = GateDecision.ALLOWED_WITH_CONSEQUENCE
NO: Final = GateDecision.NOT_ALLOWED
UNKNOWN: Final = GateDecision.UNKNOWN


def edit(
    base: Base, name: str, theme: str, says: GateDecision, why: str, *changes: tuple[str, str]
) -> Edit:
    """Return an edit; its name begins with that of its base."""
    return Edit(
        name=f"{base.name}.{name}", base=base, theme=theme, says=says, why=why, changes=changes
    )
