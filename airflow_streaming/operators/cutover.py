"""
The operators of a cutover: look, ask, run green beside blue, judge, switch, settle, retire.

``orchestration.blue_green`` strings them together; who composes a dag of his own needs the same
order.
"""

from __future__ import annotations

from airflow_streaming.operators._cutover.check import CutoverCheckOperator
from airflow_streaming.operators._cutover.checking import CutoverCheck, SideBySide
from airflow_streaming.operators._cutover.plan import CutoverPlanOperator
from airflow_streaming.operators._cutover.question import CutoverQuestionOperator
from airflow_streaming.operators._cutover.retire import CutoverRetireOperator
from airflow_streaming.operators._cutover.settle import CutoverSettleOperator
from airflow_streaming.operators._cutover.step import CutoverStepOperator

__all__ = [
    "CutoverCheck",
    "CutoverCheckOperator",
    "CutoverPlanOperator",
    "CutoverQuestionOperator",
    "CutoverRetireOperator",
    "CutoverSettleOperator",
    "CutoverStepOperator",
    "SideBySide",
]
