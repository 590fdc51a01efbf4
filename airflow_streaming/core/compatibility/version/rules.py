"""Every rule of the version gate, as data; ``docs/gates.md`` lists them."""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.compatibility.version import measured, pins, standing, steps, way_back

RULES: Final = (
    *standing.RULES,
    *measured.RULES,
    *way_back.RULES,
    *pins.RULES,
    *steps.RULES,
)
