"""
Edits of code as data: the published recovery semantics, both sides of each rule, and those edits
that Spark was measured to let through although results become wrong.
"""

from __future__ import annotations

from typing import Final

from tests.unit.gates.change.edits_of_aggregations import AGGREGATIONS
from tests.unit.gates.change.edits_of_sinks import SINKS
from tests.unit.gates.change.edits_of_sources import SOURCES
from tests.unit.gates.change.edits_of_state import STATE
from tests.unit.gates.change.edits_of_steps import PROJECTIONS
from tests.unit.gates.change.edits_of_the_rest import REST

EDITS: Final = (*SOURCES, *SINKS, *PROJECTIONS, *AGGREGATIONS, *STATE, *REST)
