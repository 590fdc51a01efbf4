"""
Whether a query may start, and on which checkpoint.

Every query gets a folder under the deployment's checkpoint, named as the query is. A script that
chooses a location itself keeps it. Whoever asks for something unsafe is refused, and the refusal
ends the driver even if the script swallows it: a stream with one query missing is not the stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from airflow_streaming.core.names import NAME_RULE, is_path_part
from airflow_streaming.core.status import CheckpointOrigin
from airflow_streaming.core.uris import join, to_hadoop
from airflow_streaming.driver.checkpoint import Claims
from airflow_streaming.driver.ending import Ending
from airflow_streaming.driver.queries import Queries
from airflow_streaming.driver.query import Query
from airflow_streaming.driver.tracked import TrackedQuery
from airflow_streaming.exceptions import DriverRefusal, StopRequested
from airflow_streaming.files.store import Store


class CheckpointStore(Store, Protocol):
    """A checkpoint folder as a store."""

    location: str
    """The folder's one qualified name, the same however a script spells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """
    What the script asks for.

    :param location: The checkpoint location it chose itself, by option or session configuration.
    :param gated: It set a ``foreachBatch`` function.
    """

    name: str | None
    location: str | None
    gated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A query that Spark has just started."""

    query: Query
    id: str
    run_id: str


class Admission:
    """
    Admits queries one at a time.

    :param checkpoint: Folder of the deployment's checkpoints.
    """

    def __init__(
        self, checkpoint: str, *, queries: Queries, claims: Claims, ending: Ending
    ) -> None:
        self._checkpoint = checkpoint
        self._queries, self._claims, self._ending = queries, claims, ending
        self._lock = threading.RLock()

    def start(
        self,
        wish: Wish,
        *,
        open_checkpoint: Callable[[str], CheckpointStore],
        launch: Callable[[str, str], Started],
    ) -> None:
        """
        Start a query if it is safe.

        :param open_checkpoint: Opens a location as a store.
        :param launch: Starts the query with a name and a checkpoint location.
        :raises DriverRefusal: it is not safe.
        :raises StopRequested: the driver is coming to its end.
        """
        with self._lock:
            self._check_not_ending(wish)
            try:
                name = checked_name(wish.name)
                location, origin = self._locate(name, wish)
                files = open_checkpoint(location)
                self._check_free(name, files.location)
                self._claims.check(name, files, files.location)
            except DriverRefusal as err:
                self._ending.refuse(str(err))
                raise
            started = launch(name, location)
            self._queries.add(
                TrackedQuery(
                    started.query,
                    name=name,
                    id=started.id,
                    run_id=started.run_id,
                    checkpoint=files.location,
                    files=files,
                    origin=origin,
                    gated=wish.gated,
                )
            )
            self._claims.keep(name, started.id, files.location)

    def _check_not_ending(self, wish: Wish) -> None:
        if self._ending.begun.is_set():
            raise StopRequested(
                f"Query {wish.name!r} was not started because the stream is ending."
            )

    def _locate(self, name: str, wish: Wish) -> tuple[str, CheckpointOrigin]:
        if wish.location:
            return wish.location, CheckpointOrigin.SCRIPT
        return to_hadoop(join(self._checkpoint, name)), CheckpointOrigin.DEPLOYMENT

    def _check_free(self, name: str, location: str) -> None:
        for other in self._queries.all():
            # Asked afresh: a script may start a query again the moment its older run has ended.
            if other.checkpoint == location and other.query.is_active():
                raise DriverRefusal(
                    f"Query {name!r} would use checkpoint {location}, which the active query "
                    f"{other.name!r} uses already. Give every query a name and a checkpoint of "
                    "its own."
                )


def checked_name(name: str | None) -> str:
    """
    Return the query's name if it can be a folder.

    :raises DriverRefusal: there is none, or it cannot.
    """
    if not name:
        raise DriverRefusal(
            "A streaming query has no name, so its checkpoint would have none either. Add "
            '.queryName("...") before .start() or .toTable().'
        )
    if not is_path_part(name):
        raise DriverRefusal(
            f"Query name {name!r} cannot be used as a folder name for its checkpoint. {NAME_RULE}"
        )
    return name
