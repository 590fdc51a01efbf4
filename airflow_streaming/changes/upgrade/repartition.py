"""
Change the number of state partitions on the same checkpoint.

Spark itself (4.2 and newer) does it in place while the stream is down, fenced and backed up. So
only one Spark may ever do it to one checkpoint: the step that begins it is recorded first, by
exclusive create, and its winner starts the one Spark, which ends itself after the time in the step.
Other tasks check whether the checkpoint shows the result, and after that time treat it as failed. A
checkpoint with an unfinished repartition is never used again: the rollback restores the backup
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from airflow_streaming.changes.upgrade.decide import REPARTITION_WITHIN
from airflow_streaming.checkpoints.copies import checkpoints_of
from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.reader import Reader
from airflow_streaming.exceptions import CheckpointError, LaunchError
from airflow_streaming.gates.state_partitions import RepartitionPlan, is_done, plan_repartition
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.upkeep import RepartitionAnswer, RepartitionOrder
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.records.upgrade import RollbackPlan, SinkFacts
from airflow_streaming.model.spark.conf import parse_spark_version
from airflow_streaming.model.uris import to_hadoop
from airflow_streaming.spark_jobs.runner import Job, NoAnswer, Task, ask
from airflow_streaming.spark_jobs.scratch import scratch_folder
from airflow_streaming.storage.folders import open_folders

PARTITIONS: Final = "spark.sql.shuffle.partitions"
PREFIX: Final = "airflow-streaming-repartition-"
"""Prefix of its scratch folders, by which leftovers of killed tasks are found and removed."""
VARIABLE: Final = "AIRFLOW_STREAMING_REPARTITION"
"""Set to 1 in a Spark that changes the number of state partitions."""


def inspect_all(
    home: StreamHome, storage_options: Mapping[str, Any] | None = None
) -> dict[str, Checkpoint]:
    """
    Return the checkpoints of a stream by query, in any state.

    :raises CheckpointError: There is no checkpoint, or one cannot be read.
    """
    found = checkpoints_of(home, storage_options).checkpoints
    return {
        query: Reader(open_folders(uri, storage_options)).inspect(contents=False)
        for query, uri in found.items()
    }


def planned_for(
    home: StreamHome,
    conf: Mapping[str, str],
    spark_version: str,
    *,
    sinks: Sequence[SinkFacts],
    rollback: RollbackPlan,
    storage_options: Mapping[str, Any] | None = None,
) -> RepartitionPlan:
    """
    Plan the number of partitions in a deployment's configuration.

    :raises CheckpointError: A checkpoint cannot be read.
    """
    wanted = conf.get(PARTITIONS, "")
    if not wanted.isdecimal() or not int(wanted):
        return RepartitionPlan()
    return plan_repartition(
        inspect_all(home, storage_options),
        int(wanted),
        parse_spark_version(spark_version),
        sinks=sinks,
        rollback=rollback,
    )


def unbegun_batches(home: StreamHome) -> Mapping[str, int]:
    """
    Return the planned batches that no driver has begun, by query.

    Only the newest driver can know, and only if it ended at its own pace: a killed one may have
    begun its planned batch.
    """
    epochs = map(home.epoch, reversed(home.epoch_numbers()))
    newest = next((epoch for epoch in epochs if epoch.cause is not LaunchCause.FENCE), None)
    exit = None if newest is None else home.exit(newest.number)
    return {} if exit is None or exit.cut_off else exit.unbegun


class Repartitioner(Protocol):
    """Changes the number of state partitions, and tells whether it is changed."""

    def run(self, partitions: int) -> RepartitionAnswer:
        """Run one Spark that does it; it ends within ``REPARTITION_WITHIN`` in any case."""

    def is_done(self, partitions: int) -> bool:
        """Tell whether the checkpoints say that it is done."""


class SparkRepartitioner:
    """
    Changes it with a Spark of the stream's own version on this host.

    :param of: Returns the stream's Spark, and its configuration with secrets, on demand.
    """

    def __init__(
        self,
        home: StreamHome,
        of: Callable[[], tuple[Runtime, Mapping[str, Any]]],
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._home, self._of, self._options = home, of, storage_options

    def run(self, partitions: int) -> RepartitionAnswer:
        """Have Spark do it; see ``Repartitioner``."""
        runtime, conf = self._of()
        reports = inspect_all(self._home, self._options)
        places = {query: to_hadoop(one.uri) for query, one in reports.items() if one.is_stateful}
        unbegun = unbegun_batches(self._home)
        with scratch_folder(None, PREFIX) as own:
            order = RepartitionOrder(
                checkpoints=tuple(places.values()),
                partitions=partitions,
                unbegun={
                    places[query]: batch for query, batch in unbegun.items() if query in places
                },
                answer=str(own.folder / "answer.json"),
                seconds=REPARTITION_WITHIN.total_seconds(),
            )
            task = Task(job=Job.REPARTITION, order=order, variable=VARIABLE)
            try:
                return ask(
                    *(task, order, RepartitionAnswer),
                    runtime=runtime,
                    conf=conf,
                    scratch=own.folder,
                )
            except NoAnswer as err:
                return RepartitionAnswer(condition="NO_ANSWER", failed=str(err))
            except LaunchError as err:
                return RepartitionAnswer(condition="LAUNCH", failed=str(err))

    def is_done(self, partitions: int) -> bool:
        """Tell whether the checkpoints say that it is done; see ``Repartitioner``."""
        try:
            return is_done(inspect_all(self._home, self._options).values(), partitions)
        except CheckpointError:
            return False
