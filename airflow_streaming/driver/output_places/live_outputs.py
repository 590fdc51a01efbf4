"""
The fence of last resort between lanes: a driver never writes a place that the live lane's queries write.

The preflight of a cutover compares plans before anything starts. A script can choose another place once it
runs, so the driver of a lane that is not live compares again, with the writer that is about to start.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.model.names import Layout, base_of, is_path_part, number_of
from airflow_streaming.model.records.cutover import LiveRecord
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.spark.sink_place import Shared, SinkPlace, place_of, shared
from airflow_streaming.model.storage import Store

_MAX_EPOCHS: Final = 20
"""Epochs of the live lane's newest deployment that are searched for plans, newest first."""


class LiveOutputs:
    """
    The places that the live lane of a stream writes.

    :param lane: The lane of this driver.
    """

    def __init__(self, store: Store, lane: str) -> None:
        self._store, self._lane = store, lane
        self._known: list[tuple[str, SinkPlace]] | None = None

    def check(self, query: str, place: SinkPlace | None) -> None:
        """
        Let a query start if no query of the live lane writes its place.

        :param place: Where it writes; ``None`` where its writer does not say, which the preflight has reported.
        :raises DriverRefusal: a query of the live lane writes there.
        :raises RecordError: a record of the live lane is malformed.
        """
        if place is not None:
            self.learn()
            self.check_known(query, place)

    def learn(self) -> None:
        """
        Read the places of the live lane, once; ``check_known`` compares with them.

        :raises RecordError: a record of the live lane is malformed.
        """
        if self._known is None:
            self._known = [] if self._live == self._lane else [*self._places()]

    def check_known(self, query: str, place: SinkPlace) -> None:
        """
        Let a query write a place, by the places that ``learn`` has read; the home is not read.

        :raises DriverRefusal: a query of the live lane writes there.
        """
        for writer, theirs in self._known or ():
            if shared(place, theirs) is Shared.SAME:
                raise DriverRefusal(
                    f"Query {query!r} of lane {self._lane!r} would write {place}, which query {writer!r} of the "
                    f"live lane {self._live!r} writes: every row would be there twice. Give the script a place "
                    "of its own by {output} or {stream} in its arguments, and start the cutover again."
                )

    @cached_property
    def _live(self) -> str:
        """Return the live lane; a stream without a cutover has one lane."""
        layout = Layout(base_of(self._lane))
        numbers = filter(None, map(number_of, self._store.names(layout.folder(LiveRecord))))
        newest = max(numbers, default=0)
        data = self._store.read(layout.place(LiveRecord, number=newest)) if newest else None
        return layout.root if data is None else layout.parse(LiveRecord, data, number=newest).lane

    def _places(self) -> Iterator[tuple[str, SinkPlace]]:
        """Yield where each query writes by its newest plan, and each place of its function."""
        layout, seen = Layout(self._live), set[str]()
        epochs = filter(None, map(number_of, self._store.names(layout.folder(Epoch))))
        deployment = 0
        for number in sorted(epochs, reverse=True)[:_MAX_EPOCHS]:
            data = self._store.read(layout.place(Epoch, number=number))
            of = 0 if data is None else layout.parse(Epoch, data, number=number).deployment
            if of < deployment:
                break
            # A driver that has just started has recorded some of its plans only.
            deployment = of
            for query, plan in self._plans(layout, number).items():
                # A driver that has just started has recorded some places of its functions only.
                sinks = plan.writes if query in seen else (plan.sink, *plan.writes)
                seen.add(query)
                yield from ((query, place) for place in map(place_of, sinks) if place is not None)

    def _plans(self, layout: Layout, epoch: int) -> dict[str, QueryPlan]:
        names = self._store.names(layout.folder(QueryPlan, epoch=epoch))
        queries = filter(is_path_part, (name.removesuffix(".json") for name in names))
        files = {
            q: self._store.read(layout.place(QueryPlan, epoch=epoch, query=q)) for q in queries
        }
        return {
            query: layout.parse(QueryPlan, data, epoch=epoch, query=query)
            for query, data in files.items()
            if data is not None
        }
