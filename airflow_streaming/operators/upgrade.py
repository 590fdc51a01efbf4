"""
The operators of an upgrade in place: look, ask, take it on, check, settle.

``orchestration.upgrade`` strings them together; who composes a dag of his own needs the same order.
"""

from __future__ import annotations

from airflow_streaming.operators._upgrade.approval import UpgradeApprovalOperator
from airflow_streaming.operators._upgrade.check import Soaked, UpgradeCheckOperator
from airflow_streaming.operators._upgrade.preflight import UpgradePreflightOperator
from airflow_streaming.operators._upgrade.rehearsal import UpgradeRehearsalOperator
from airflow_streaming.operators._upgrade.settle import UpgradeSettleOperator
from airflow_streaming.operators._upgrade.step import UpgradeStepOperator

__all__ = [
    "Soaked",
    "UpgradeApprovalOperator",
    "UpgradeCheckOperator",
    "UpgradePreflightOperator",
    "UpgradeRehearsalOperator",
    "UpgradeSettleOperator",
    "UpgradeStepOperator",
]
