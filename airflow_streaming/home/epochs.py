"""The epochs of a stream, and what is known of each one's driver."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_streaming.core.control import Circuit, CircuitState
from airflow_streaming.core.epoch import Death, Epoch, Exit, Launch, StopRequest
from airflow_streaming.core.names import numbered
from airflow_streaming.core.restart import RestartDecision
from airflow_streaming.core.status import Status
from airflow_streaming.exceptions import AlreadyExists
from airflow_streaming.home.folder import StreamFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """What was written about an epoch besides its driver's heartbeat; mostly nothing."""

    stop: StopRequest | None = None
    exit: Exit | None = None
    death: Death | None = None
    decision: RestartDecision | None = None


class Epochs(StreamFolder):
    """
    Read and create the epochs of one stream and the records in their folders.

    A method that records something about an epoch returns the record that counts: the given one,
    or the one that somebody else wrote first.
    """

    def newest_epoch(self) -> Epoch | None:
        """Return the epoch that may write, ``None`` before the first."""
        return self._newest(Epoch, "epochs")

    def epoch(self, number: int) -> Epoch:
        """
        Return one epoch.

        :raises RecordError: there is none of that number.
        """
        return self._numbered(Epoch, "epochs", number)

    def create_epoch(self, epoch: Epoch) -> None:
        """
        Take an epoch: from now on no driver of an older one may write.

        :raises AlreadyExists: somebody else took it first.
        """
        path = self._layout.record("epochs", epoch.number)
        # A store's client repeats a request whose reply got lost and is then told "exists". The
        # token says whether it is ours; taken for a loss, nobody would start the epoch's driver.
        if self._create_or_read(epoch, path, number=epoch.number).token != epoch.token:
            raise AlreadyExists(self._shown(path))

    def launch(self, epoch: int) -> Launch | None:
        """Return the external id of the epoch's driver, ``None`` until it is recorded."""
        return self._read(Launch, self._layout.epoch(epoch, "launch.json"), epoch=epoch)

    def record_launch(self, launch: Launch) -> Launch:
        """Record the external id of a driver that was just started."""
        path = self._layout.epoch(launch.epoch, "launch.json")
        return self._create_or_read(launch, path, epoch=launch.epoch)

    def status(self, epoch: int) -> Status | None:
        """Return the driver's latest heartbeat, ``None`` before the first."""
        return self._read(Status, self._layout.epoch(epoch, "status.json"), epoch=epoch)

    def exit(self, epoch: int) -> Exit | None:
        """Return the driver's own word on why it ended, ``None`` when it has left none."""
        return self._read(Exit, self._layout.epoch(epoch, "exit.json"), epoch=epoch)

    def stop_request(self, epoch: int) -> StopRequest | None:
        """Return the request to stop the epoch's driver, if there is one."""
        return self._read(StopRequest, self._layout.epoch(epoch, "stop.json"), epoch=epoch)

    def request_stop(self, request: StopRequest) -> StopRequest:
        """Ask an epoch's driver to stop; the first request counts."""
        path = self._layout.epoch(request.epoch, "stop.json")
        return self._create_or_read(request, path, epoch=request.epoch)

    def death(self, epoch: int) -> Death | None:
        """Return the proof that the epoch's driver is gone, if there is one."""
        return self._read(Death, self._layout.epoch(epoch, "death.json"), epoch=epoch)

    def declare_dead(self, death: Death) -> Death:
        """Record that an epoch's driver is gone; the first proof counts."""
        path = self._layout.epoch(death.epoch, "death.json")
        return self._create_or_read(death, path, epoch=death.epoch)

    def aftermath(self, epoch: int) -> Aftermath:
        """Return what was written about an epoch, reading only what a listing shows."""
        names = self._file_names(epoch)
        return Aftermath(
            stop=self.stop_request(epoch) if "stop.json" in names else None,
            exit=self.exit(epoch) if "exit.json" in names else None,
            death=self.death(epoch) if "death.json" in names else None,
            decision=self.restart_decision(epoch) if "restart.json" in names else None,
        )

    def _file_names(self, epoch: int) -> frozenset[str]:
        return frozenset(self.store.names(f"{self._layout.folder('epochs')}/{numbered(epoch)}"))

    def restart_decision(self, epoch: int) -> RestartDecision | None:
        """Return what was decided about a failed epoch, ``None`` while nothing is."""
        path = self._layout.epoch(epoch, "restart.json")
        return self._read(RestartDecision, path, epoch=epoch)

    def record_restart_decision(self, decision: RestartDecision) -> RestartDecision:
        """Record what becomes of a failed epoch; the first decision counts."""
        path = self._layout.epoch(decision.epoch, "restart.json")
        return self._create_or_read(decision, path, epoch=decision.epoch)

    def earlier_decisions(
        self, epoch: int, *, since: datetime | None = None, least: int = 64
    ) -> list[RestartDecision]:
        """
        Return what a restart policy may hold against an epoch, oldest first.

        These are the decisions about the epochs before it, back to the moment when a person last
        closed the circuit: whoever closes it grants a new budget.

        :param since: How far the longest window of a budget reaches back.
        :param least: How many to return at least, where there are as many.
        """
        newest_first: list[RestartDecision] = []
        for number in range(epoch - 1, self._forgiven(), -1):
            decision = self.restart_decision(number)
            if decision is None:
                continue
            newest_first.append(decision)
            is_out = since is None or decision.decided_at < since
            if is_out and len(newest_first) >= least:
                break
        return newest_first[::-1]

    def _forgiven(self) -> int:
        for number in reversed(self._numbers("circuit")):
            circuit = self._numbered(Circuit, "circuit", number)
            if circuit.state is CircuitState.CLOSED:
                return circuit.epoch
        return 0
