from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from airflow_streaming.model.host import this_host
from airflow_streaming.model.records.epoch import Epoch, Host, LaunchCause

MakeEpoch = Callable[..., Epoch]


@pytest.fixture
def make_epoch() -> MakeEpoch:
    def make(
        *,
        token: str | None = None,
        number: int = 1,
        host: Host | None = None,
        owner: int | None = None,
    ) -> Epoch:
        return Epoch(
            number=number,
            stream="orders",
            deployment=1,
            token=token or uuid.uuid4().hex,
            host=host or this_host(),
            launcher="local",
            cause=LaunchCause.FIRST,
            reason="The first launch.",
            by="test",
            created_at=datetime.now(UTC),
            owner=owner,
        )

    return make
