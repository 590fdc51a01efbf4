"""
Whether a query may start, and on which checkpoint.

Every query gets a folder under the deployment's checkpoint, named as the query is. A script that
chooses a location itself keeps it. An unsafe request is refused, and the refusal
ends the driver even if the script swallows it: a stream with one query missing is not the stream.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from airflow_streaming.driver.checkpoint.checkpoint_claims import Claims
from airflow_streaming.driver.checkpoint.first_batch import MovableStore, put_first_batch_aside
from airflow_streaming.driver.exit_status import ShutdownState
from airflow_streaming.driver.monitoring.queries import Queries, TrackedQuery
from airflow_streaming.driver.monitoring.spark_query import Query
from airflow_streaming.driver.output_places.live_outputs import LiveOutputs
from airflow_streaming.driver.pausing.pause_watch import PauseWatch
from airflow_streaming.driver.script import error_of
from airflow_streaming.driver.standby.barrier import StandbyBarrier
from airflow_streaming.driver.standby.starts import Run, absorb
from airflow_streaming.exceptions import DriverRefusal, HomeUnavailable, StopRequested
from airflow_streaming.model.names import NAME_RULE, is_path_part
from airflow_streaming.model.plan.real_time import SlotDemand
from airflow_streaming.model.spark.sink_place import SinkPlace
from airflow_streaming.model.status import CheckpointOrigin
from airflow_streaming.model.uris import join, to_hadoop


class CheckpointStore(MovableStore, Protocol):
    """A checkpoint folder as a store."""

    location: str
    """The folder's one qualified name, the same however a script spells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """
    A start that the script requests.

    :param location: The script's checkpoint location, by option or session configuration.
    :param gated: It set a ``foreachBatch`` function.
    :param place: Where the query would write; ``None`` where its writer does not name the place.
    :param queues: Formats of its sources that have no positions.
    :param demand: Task slots in real-time mode; ``None`` of another query, or where they are unknown.
    :param drops_plans: Spark drops a plan without a commit at the start; see ``first_batch``.
    """

    name: str | None
    location: str | None
    gated: bool
    place: SinkPlace | None = None
    queues: tuple[str, ...] = ()
    demand: SlotDemand | None = None
    drops_plans: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A query that Spark has just started."""

    query: Query
    id: str
    run_id: str


class CheckpointLocation(NamedTuple):
    """
    Where a query is to start.

    :param opener: Opens a checkpoint location as a store.
    :param run_planned: Runs the query's planned batch with the output thrown away.
    """

    name: str
    location: str
    origin: CheckpointOrigin
    opener: Callable[[str], CheckpointStore]
    run_planned: Run

    def open(self) -> CheckpointStore:
        return self.opener(self.location)

    def absorb(self, batch: int) -> int:
        """Run a planned batch with its output thrown away, see ``standby.absorbing``."""
        return absorb(
            self.name, self.location, files=self.open(), batch=batch, run=self.run_planned
        )


class StartGuard:
    """
    Admits queries one at a time.

    :param checkpoint: Folder of the deployment's checkpoints.
    :param barrier: Where queries wait before they are admitted; nowhere by default.
    :param outputs: Refuses a place that the live lane writes; not checked by default.
    """

    pauses: PauseWatch | None = None
    """Pauses between batches, in which no query starts."""

    def __init__(
        self,
        checkpoint: str,
        *,
        queries: Queries,
        claims: Claims,
        ending: ShutdownState,
        barrier: StandbyBarrier | None = None,
        outputs: LiveOutputs | None = None,
    ) -> None:
        self._checkpoint = checkpoint
        self._queries, self._claims, self._ending = queries, claims, ending
        self._barrier, self._outputs = barrier, outputs
        self._lock = threading.RLock()

    @property
    def holds_back(self) -> bool:
        """Tell whether a query would wait now."""
        return self._barrier is not None and self._barrier.is_closed

    def sets_aside(self, query: str | None) -> bool:
        """Note that a query comes; tell whether it waits aside, see ``StandbyBarrier``."""
        return self._barrier is not None and self._barrier.sets_aside(query or "")

    def started(self) -> Sequence[TrackedQuery]:
        """Return the started queries, after waiting for a start in progress."""
        with self._lock:
            return self._queries.all()

    def start(
        self,
        request: StartRequest,
        *,
        open_checkpoint: Callable[[str], CheckpointStore],
        launch: Callable[[str, str], Started],
        run_planned: Run,
    ) -> None:
        """
        Start a query if it is safe.

        :param open_checkpoint: Opens a location as a store.
        :param launch: Starts the query with a name and a checkpoint location.
        :param run_planned: Runs its planned batch with the output thrown away.
        :raises DriverRefusal: it is not safe.
        :raises StopRequested: the driver is coming to its end.
        """
        self._check_not_ending(request)
        with self._telling(request):
            place = self._place(request, open_checkpoint, run_planned)
            if self._barrier is not None:
                self._barrier.wait(place.name, place.absorb)
        with self._outside_pauses():
            self._check_not_ending(request)
            with self._telling(request):
                files = place.open()
                shift = self._check(place, files, request)
                put_first_batch_aside(place.name, files, drops_plans=request.drops_plans)
            # Before the start: the first batch may run before this thread continues.
            self._queries.shift_batches(place.name, shift)
            started = launch(place.name, place.location)
            self._queries.add(
                TrackedQuery(
                    started.query,
                    name=place.name,
                    id=started.id,
                    run_id=started.run_id,
                    checkpoint=files.location,
                    files=files,
                    origin=place.origin,
                    gated=request.gated,
                    batch_shift=shift,
                )
            )
            self._claims.keep(place.name, started.id, files.location)

    @contextlib.contextmanager
    def _outside_pauses(self) -> Iterator[None]:
        """Hold the lock of the starts at a moment at which no pause is open."""
        while True:
            if self.pauses is not None:
                self.pauses.wait_to_start()
            with self._lock:
                # A pause that opens from here on waits for this start.
                if self.pauses is None or not self.pauses.is_open:
                    yield
                    return

    def _place(
        self,
        request: StartRequest,
        open_checkpoint: Callable[[str], CheckpointStore],
        run_planned: Run,
    ) -> CheckpointLocation:
        name = checked_name(request.name)
        check_positions(name, request.queues)
        if request.demand is not None and request.demand.is_short:
            raise DriverRefusal(f"Query {name!r} runs in real-time mode. {request.demand.sentence}")
        location, origin = self._locate(name, request)
        return CheckpointLocation(name, location, origin, open_checkpoint, run_planned)

    def _check(
        self, place: CheckpointLocation, files: CheckpointStore, request: StartRequest
    ) -> int:
        """Check that a query may start, and return by how much its batch ids are shifted."""
        self._check_free(place.name, files.location)
        if self._outputs is not None:
            self._outputs.check(place.name, request.place)
            if request.gated:
                # Its function is checked while batches run, when the home may be away.
                self._outputs.learn()
        claim = self._claims.check(place.name, files, files.location, must_know=request.gated)
        if claim is None:
            return 0
        if claim.absorb is not None:
            place.absorb(claim.absorb)
        return claim.batch_shift

    @contextlib.contextmanager
    def _telling(self, request: StartRequest) -> Iterator[None]:
        """End the driver by whatever keeps a query from starting, even if the script continues."""
        try:
            yield
        except (StopRequested, HomeUnavailable):
            raise
        except DriverRefusal as err:
            self._ending.refuse(err)
            raise
        except Exception as err:
            self._queries.note_not_started(request.name or "", error_of(err))
            self._ending.fail()
            raise

    def _check_not_ending(self, request: StartRequest) -> None:
        if self._ending.begun.is_set():
            raise StopRequested(
                f"Query {request.name!r} was not started because the stream is ending."
            )

    def _locate(self, name: str, request: StartRequest) -> tuple[str, CheckpointOrigin]:
        if request.location:
            return request.location, CheckpointOrigin.SCRIPT
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
    Check that the query's name can be a folder, and return it.

    :raises DriverRefusal: the name is missing, or cannot be a folder.
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


def check_positions(name: str, queues: Sequence[str]) -> None:
    """
    Refuse a query that reads a queue.

    :param queues: Formats of its sources that have no positions.
    :raises DriverRefusal: there is one.
    """
    if queues:
        raise DriverRefusal(
            f"Query {name!r} reads from {', '.join(queues)}, a source without positions: its broker remembers "
            "which records were delivered, so no fence, backup or rewind of the checkpoint holds. Read the "
            "topic with format('kafka'), or let another job copy the queue into files or a topic."
        )
