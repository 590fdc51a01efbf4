"""
The operators that answer before a stream is touched.

Does the new code fit the old checkpoint, does the new Spark read it, and does it all run on a copy?
"""

from __future__ import annotations

from airflow_streaming.operators._gate.change import ChangeGateOperator
from airflow_streaming.operators._gate.rehearsal import RehearsalOperator
from airflow_streaming.operators._gate.version import SparkVersionGateOperator

__all__ = ["ChangeGateOperator", "RehearsalOperator", "SparkVersionGateOperator"]
