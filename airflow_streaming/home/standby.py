"""
What a standby driver is told and what it answers: the records under ``epochs/<number>/orders``.

An order is created once and never taken back. Whoever repeats one, after a crash between the order
and its answer, finds the number taken by the very same wish and goes on with that.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_streaming.core.cutover.orders import Barrier, StandbyAnswer, StandbyOrder
from airflow_streaming.core.epoch import QueryClaim
from airflow_streaming.core.names import number_of, numbered
from airflow_streaming.home.folder import StreamFolder


class Standby(StreamFolder):
    """Read the barrier and the answers of standby drivers of one stream, and give them orders."""

    def barrier(self, epoch: int) -> Barrier | None:
        """Return which queries wait at the barrier, ``None`` before the first one does."""
        return self._read(Barrier, self._layout.barrier(epoch), epoch=epoch)

    def orders(self, epoch: int) -> list[StandbyOrder]:
        """
        Return the orders that an epoch's driver was given, the first one first.

        :raises RecordError: one of them is malformed.
        """
        folder = f"{self._layout.folder('epochs')}/{numbered(epoch)}/orders"
        numbers = sorted(filter(None, map(number_of, self.store.names(folder))))
        found = (self._order(epoch, number) for number in numbers)
        return [order for order in found if order is not None]

    def give_order(self, order: StandbyOrder) -> StandbyOrder:
        """
        Give an epoch's driver an order, and return the one that counts under its number.

        The driver takes orders by their number, without gaps: the next one is
        ``len(home.orders(epoch)) + 1``.
        """
        path = self._layout.standby_order(order.epoch, order.number)
        return self._create_or_read(order, path, epoch=order.epoch, number=order.number)

    def answer(self, epoch: int, number: int) -> StandbyAnswer | None:
        """Return what became of an order, ``None`` before it was answered."""
        path = self._layout.standby_answer(epoch, number)
        return self._read(StandbyAnswer, path, epoch=epoch, number=number)

    def batch_shift(self, query_id: str) -> int:
        """
        Return what is added to the batch ids of a query of this stream, 0 when nothing is.

        It belongs to the query's id, which is in the checkpoint: a copy restored elsewhere counts
        on from the same numbers.
        """
        claim = self.claim_of(query_id)
        return claim.batch_shift if claim else 0

    def claim_of(self, query_id: str) -> QueryClaim | None:
        """Return the newest claim of a query of this stream, whatever checkpoint it is on."""
        folder = self._layout.folder("queries")
        claims = [
            claim
            for deployment in self.store.names(folder)
            for claim in self._claims_in(f"{folder}/{deployment}")
            if claim.query_id == query_id
        ]
        return claims[-1] if claims else None

    def _claims_in(self, folder: str) -> Iterator[QueryClaim]:
        for name in self.store.names(folder):
            claim = self._read(QueryClaim, f"{folder}/{name}")
            if claim is not None:
                yield claim

    def _order(self, epoch: int, number: int) -> StandbyOrder | None:
        path = self._layout.standby_order(epoch, number)
        return self._read(StandbyOrder, path, epoch=epoch, number=number)
