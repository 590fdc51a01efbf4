"""The trigger of health sensors before gates had one in common; rows of it may still be waiting."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow_streaming.core.gating import Condition
from airflow_streaming.triggers.gate import GateTrigger


class StreamHealthTrigger(GateTrigger):
    """
    Fires when a stream has been healthy for a time, or will not be by itself.

    :param healthy_for_seconds: How long it has to have made progress.
    :param kwargs: Those of ``GateTrigger``.
    """

    def __init__(self, *, healthy_for_seconds: float = 0.0, **kwargs: Any) -> None:
        self.healthy_for_seconds = healthy_for_seconds
        condition = Condition(healthy_for=timedelta(seconds=healthy_for_seconds))
        super().__init__(**{**kwargs, "condition": condition.to_dict()})

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        del kwargs["condition"]
        return path, {**kwargs, "healthy_for_seconds": self.healthy_for_seconds}
