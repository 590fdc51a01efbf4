"""The orders of one epoch as its driver sees them: read one after the other, each answered once."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime

from airflow_streaming.core.cutover.orders import Barrier, StandbyAnswer, StandbyOrder
from airflow_streaming.core.names import Layout
from airflow_streaming.exceptions import AlreadyExists, RecordError
from airflow_streaming.files.store import Store


class OrderBook:
    """
    The orders to one standby driver.

    Methods raise ``HomeUnavailable`` when the home cannot be reached; what was asked for then stays
    to be done.
    """

    def __init__(self, store: Store, layout: Layout, epoch: int) -> None:
        self._store, self._layout, self._epoch = store, layout, epoch
        self.number = 1
        """Number of the order that is in work, or that comes next."""

    def next(self) -> StandbyOrder | None:
        """
        Return the order that has not been answered yet, ``None`` while there is none.

        :raises RecordError: it cannot be read, or is not what its name says.
        """
        path = self._layout.standby_order(self._epoch, self.number)
        data = self._store.read(path)
        if data is None:
            return None
        order = StandbyOrder.from_bytes(data)
        if (order.epoch, order.number) != (self._epoch, self.number):
            raise RecordError(
                f"{self._store.uri}/{path} is order {order.number} to epoch {order.epoch}, which "
                "is not what its name says."
            )
        return order

    def answer(self, *, committed: dict[str, int], error: str) -> None:
        """Say what became of the order in work, and go on to the next one."""
        answer = StandbyAnswer(
            epoch=self._epoch,
            number=self.number,
            at=datetime.now(UTC),
            committed=committed,
            error=error,
        )
        path = self._layout.standby_answer(self._epoch, self.number)
        # The reply of a store may get lost; what stands there then is ours.
        with contextlib.suppress(AlreadyExists):
            self._store.create(path, answer.to_bytes())
        self.number += 1

    def show(self, queries: Sequence[str]) -> None:
        """Tell which queries wait at the barrier."""
        barrier = Barrier(epoch=self._epoch, queries=tuple(queries), at=datetime.now(UTC))
        self._store.replace(self._layout.barrier(self._epoch), barrier.to_bytes())
