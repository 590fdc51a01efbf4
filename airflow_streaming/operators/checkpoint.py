"""
The operators on checkpoints: back one up, verify a backup, bring one back, remove old ones.

Backing up and verifying neither pauses nor touches the stream.
"""

from __future__ import annotations

from airflow_streaming.operators._checkpoint.backup import CheckpointBackupOperator
from airflow_streaming.operators._checkpoint.restore import CheckpointRestoreOperator
from airflow_streaming.operators._checkpoint.retention import CheckpointRetentionOperator
from airflow_streaming.operators._checkpoint.verify import CheckpointVerifyOperator

__all__ = [
    "CheckpointBackupOperator",
    "CheckpointRestoreOperator",
    "CheckpointRetentionOperator",
    "CheckpointVerifyOperator",
]
