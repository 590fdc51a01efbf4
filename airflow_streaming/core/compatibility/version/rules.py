"""Every rule of the version gate, as data; ``docs/gates.md`` lists them."""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.compatibility.version import (
    contradiction,
    measured,
    pins,
    standing,
    steps,
    way_back,
    writer,
)

RULES: Final = (
    *standing.RULES,
    *writer.RULES,
    *contradiction.RULES,
    *measured.RULES,
    *way_back.RULES,
    *pins.RULES,
    *steps.RULES,
)
