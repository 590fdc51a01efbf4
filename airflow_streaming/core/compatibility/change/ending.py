"""
Ending: whether state is forgotten by itself, so that a change settles.

A window is closed by the watermark, and what comes later is made by the new code alone. A running
total is never closed: whatever went into it stays in it.
"""

from __future__ import annotations

from airflow_streaming.core.plan.plan import OperatorPlan, OperatorSort, QueryPlan


def ends_by_itself(plan: QueryPlan, operator: OperatorPlan) -> bool:
    """Tell whether the watermark ends every part of an operator's state."""
    if not plan.watermarks or plan.output_mode == "complete":
        return False
    times = {watermark.column for watermark in plan.watermarks}
    match operator.sort:
        case OperatorSort.SESSION_WINDOW | OperatorSort.DEDUPLICATE_WITHIN_WATERMARK:
            return True
        case OperatorSort.AGGREGATE | OperatorSort.DEDUPLICATE:
            return bool(operator.window_us) or any(key.name in times for key in operator.keys)
        case OperatorSort.JOIN:
            # Rows of both sides are dropped where the condition bounds their times.
            return any(time in operator.condition for time in times)
        case _:
            return False
