"""
The epochs of a stream: the records of each driver, its plans, and its standby orders.

An order is created once and never withdrawn. A task that repeats an order, after a crash between
the order and its answer, finds the number taken by the same order and continues with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Self

from airflow_streaming.exceptions import AlreadyExists
from airflow_streaming.home.folder import StreamFolder
from airflow_streaming.model.names import is_path_part, standby_of
from airflow_streaming.model.records.control import Circuit, CircuitState
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import (
    Barrier,
    Epoch,
    Exit,
    KeptLog,
    Launch,
    StandbyAnswer,
    StandbyOrder,
    StopRequest,
    TerminationProof,
)
from airflow_streaming.model.records.restart_decision import RestartDecision
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochOutcome:
    """The records of an epoch besides its driver's heartbeat; mostly empty."""

    stop: StopRequest | None = None
    exit: Exit | None = None
    death: TerminationProof | None = None
    decision: RestartDecision | None = None


class Epochs(StreamFolder):
    """
    Read and create the epochs of one stream and the records in their folders.

    A method that records a fact about an epoch returns the record that counts: its argument, or
    another writer's earlier record.
    """

    def newest_epoch(self) -> Epoch | None:
        """Return the epoch that may write, ``None`` before the first."""
        return self._newest(Epoch)

    def epoch_numbers(self) -> list[int]:
        """Return the numbers of all epochs, the newest last."""
        return self._numbers_of(Epoch)

    def epoch(self, number: int) -> Epoch:
        """
        Return one epoch.

        :raises RecordError: this number does not exist.
        """
        return self._numbered(Epoch, number)

    def create_epoch(self, epoch: Epoch) -> None:
        """
        Take an epoch: from now on no driver of an older one may write.

        :raises AlreadyExists: another task took it first.
        """
        # A store's client repeats a request whose reply was lost and then gets "exists". The token
        # tells whether the record is ours; if it counted as a loss, no task would start the epoch's
        # driver.
        if self._put(epoch).token != epoch.token:
            raise AlreadyExists(self._shown(self._place(epoch)))

    def launch(self, epoch: int) -> Launch | None:
        """Return the external id of the epoch's driver, ``None`` until it is recorded."""
        return self._get(Launch, epoch=epoch)

    def record_launch(self, launch: Launch) -> Launch:
        """Record the external id of a driver that was just started."""
        return self._put(launch)

    def status(self, epoch: int) -> Status | None:
        """Return the driver's latest heartbeat, ``None`` before the first."""
        return self._get(Status, epoch=epoch)

    def heartbeat(self, epoch: int) -> datetime | None:
        """Return when the driver wrote its latest heartbeat, by its clock; ``None`` before that."""
        status = self.status(epoch)
        return None if status is None else status.at

    def exit(self, epoch: int) -> Exit | None:
        """Return the driver's own word on why it ended, ``None`` when it has left none."""
        return self._get(Exit, epoch=epoch)

    def stop_request(self, epoch: int) -> StopRequest | None:
        """Return the request to stop the epoch's driver, if there is one."""
        return self._get(StopRequest, epoch=epoch)

    def request_stop(self, request: StopRequest) -> StopRequest:
        """Ask an epoch's driver to stop; the first request counts."""
        return self._put(request)

    def death(self, epoch: int) -> TerminationProof | None:
        """Return the proof that the epoch's driver is gone, if there is one."""
        return self._get(TerminationProof, epoch=epoch)

    def declare_dead(self, death: TerminationProof) -> TerminationProof:
        """Record that an epoch's driver is gone; the first proof counts."""
        return self._put(death)

    def driver_log(self, epoch: int) -> KeptLog | None:
        """Return the kept end of a failed driver's output, if there is one."""
        return self._get(KeptLog, epoch=epoch)

    def keep_driver_log(self, log: KeptLog) -> KeptLog:
        """Keep the end of a failed driver's output; the first one counts."""
        return self._put(log)

    def aftermath(self, epoch: int) -> EpochOutcome:
        """Return the records about an epoch; only listed records are read."""
        names = self._file_names(epoch)
        return EpochOutcome(
            stop=self.stop_request(epoch) if "stop.json" in names else None,
            exit=self.exit(epoch) if "exit.json" in names else None,
            death=self.death(epoch) if "death.json" in names else None,
            decision=self.restart_decision(epoch) if "restart.json" in names else None,
        )

    def _file_names(self, epoch: int) -> frozenset[str]:
        return frozenset(self.store.names(self._layout.epoch(epoch, "").rstrip("/")))

    def restart_decision(self, epoch: int) -> RestartDecision | None:
        """Return the decision about a failed epoch, ``None`` before it."""
        return self._get(RestartDecision, epoch=epoch)

    def record_restart_decision(self, decision: RestartDecision) -> RestartDecision:
        """Record the decision about a failed epoch; the first decision counts."""
        return self._put(decision)

    def earlier_decisions(
        self, epoch: int, *, since: datetime | None = None, least: int = 64
    ) -> list[RestartDecision]:
        """
        Return the earlier decisions for a restart policy, oldest first.

        These are the decisions about earlier epochs, back to the moment when a user last closed the
        circuit: closing it grants a new budget.

        :param since: How far the longest window of a budget reaches back.
        :param least: How many to return at least, where there are as many.
        """
        newest_first: list[RestartDecision] = []
        forgiven = self._forgiven()
        # Existing epochs only: a forged record may have a number too large to count down from.
        listed = (number for number in self._numbers_of(Epoch) if forgiven < number < epoch)
        for number in sorted(listed, reverse=True):
            decision = self.restart_decision(number)
            if decision is None:
                continue
            newest_first.append(decision)
            is_out = since is None or decision.decided_at < since
            if is_out and len(newest_first) >= least:
                break
        return newest_first[::-1]

    def statuses_between(self, first: int, last: int, *, most: int = 64) -> list[Status]:
        """
        Return the last statuses of the epochs after ``first`` and before ``last``, newest first.

        :param most: Maximum number of epochs to read.
        """
        numbers = sorted(number for number in self._numbers_of(Epoch) if first < number < last)
        found = (self.status(number) for number in reversed(numbers[-most:]))
        return [status for status in found if status is not None]

    def _forgiven(self) -> int:
        for number in reversed(self._numbers_of(Circuit)):
            circuit = self._numbered(Circuit, number)
            if circuit.state is CircuitState.CLOSED:
                return circuit.epoch
        return 0


class Plans(StreamFolder):
    """Read what each query of an epoch is, taken from its analyzed plan."""

    def plans(self, epoch: int) -> list[QueryPlan]:
        """Return the plans of an epoch's queries by name; none of a driver that recorded none."""
        found = [self.plan(epoch, name) for name in self._planned(epoch)]
        return [plan for plan in found if plan is not None]

    def plan(self, epoch: int, query: str) -> QueryPlan | None:
        """Return the plan of one query of an epoch, if recorded."""
        return self._get(QueryPlan, epoch=epoch, query=query)

    def newest_plans(
        self, deployment: int | None = None, *, epochs: int | None = None
    ) -> list[QueryPlan]:
        """
        Return the newest plan of each query of one deployment, by name.

        A driver that was ended before all its queries started has recorded only some of them; the
        others are in an earlier epoch. Plans of another deployment do not count.

        :param deployment: Its number; the newest one by default.
        :param epochs: Maximum number of its epochs to read, the newest first; by default all.
        :return: Empty if the deployment's drivers recorded no plan.
        """
        wanted = deployment or max(self._numbers_of(Deployment), default=0)
        found: dict[str, QueryPlan] = {}
        for epoch in islice(self._epochs_of(wanted), epochs):
            for query in self._planned(epoch):
                plan = None if query in found else self.plan(epoch, query)
                if plan is not None:
                    found[query] = plan
        return [found[query] for query in sorted(found)]

    def first_epoch(self, deployment: int) -> Epoch | None:
        """Return the first epoch of a deployment; ``None`` before its first launch."""
        numbers = list(self._epochs_of(deployment))
        return self._numbered(Epoch, numbers[-1]) if numbers else None

    def _epochs_of(self, deployment: int) -> Iterator[int]:
        """Yield the numbers of a deployment's epochs, newest first."""
        for number in reversed(self._numbers_of(Epoch)):
            of = self._numbered(Epoch, number).deployment
            if of < deployment:
                # An older deployment is never returned to under its old number.
                return
            if of == deployment:
                yield number

    def _planned(self, epoch: int) -> list[str]:
        names = self.store.names(self._layout.folder(QueryPlan, epoch=epoch))
        names = [name.removesuffix(".json") for name in names]
        return sorted(name for name in names if is_path_part(name))


class Standby(StreamFolder):
    """Read the barrier and the answers of standby drivers of one stream, and give them orders."""

    def standbys(self) -> Self:
        """Return the records of this lane's hot standbys; each one is an epoch there."""
        return self.beside(standby_of(self.name))

    def is_released(self, epoch: int) -> bool:
        """Tell whether an epoch's driver at the barrier has an order."""
        return bool(self.store.names(self._layout.folder(StandbyOrder, epoch=epoch)))

    def barrier(self, epoch: int) -> Barrier | None:
        """Return which queries wait at the barrier, ``None`` before the first one does."""
        return self._get(Barrier, epoch=epoch)

    def orders(self, epoch: int) -> list[StandbyOrder]:
        """Return the orders to an epoch's driver, the first one first."""
        numbers = self._numbers_of(StandbyOrder, epoch=epoch)
        found = (self._get(StandbyOrder, epoch=epoch, number=number) for number in numbers)
        return [order for order in found if order is not None]

    def give_order(self, order: StandbyOrder) -> StandbyOrder:
        """
        Record an order to an epoch's driver, and return the order under its number.

        The driver takes orders by their number, without gaps: the next one is
        ``len(home.orders(epoch)) + 1``.
        """
        return self._put(order)

    def answer(self, epoch: int, number: int) -> StandbyAnswer | None:
        """Return the answer to an order, ``None`` before it."""
        return self._get(StandbyAnswer, epoch=epoch, number=number)
