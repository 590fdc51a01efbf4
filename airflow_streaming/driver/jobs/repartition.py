"""
The driver that changes the number of state partitions: an ordinary Spark application on one host.

Spark writes one batch that reads no input: offsets with the new number, the state in as many
partitions, and a commit. If an earlier attempt left such a batch, it is finished, which Spark
allows with the same number only. A checkpoint that has the number already is left unchanged.

Spark refuses a checkpoint whose newest batch is planned and not committed (LAST_BATCH_FAILED,
measured on 4.3), and a busy query has such a batch at every moment. A plan that no driver began is
removed first: a crash before the plan was written leaves the sources' own logs ahead of the plans.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.errors import log_to_stderr, logger
from airflow_streaming.driver.hadoop_store import HadoopStore
from airflow_streaming.driver.jobs.drill import answer_to_file
from airflow_streaming.driver.jobs.scratch_patch import sentence_of
from airflow_streaming.driver.script import error_of
from airflow_streaming.model.jobs.upkeep import RepartitionAnswer, RepartitionOrder
from airflow_streaming.model.spark.tail import batch_of
from airflow_streaming.model.storage import Store

DONE_ALREADY: Final = "STATE_REPARTITION_INVALID_CHECKPOINT.SHUFFLE_PARTITIONS_ALREADY_MATCH"


def run(arguments: Sequence[str]) -> int:
    """Execute the order and write the answer."""
    log_to_stderr()
    order = RepartitionOrder.from_bytes(Path(arguments[0]).read_bytes())
    return answer_to_file(order, lambda: answer_to(order), "Changing the state partitions")


def answer_to(order: RepartitionOrder) -> RepartitionAnswer:
    from pyspark.sql import SparkSession

    return answered(SparkSession.builder.getOrCreate(), order)


def answered(session: Any, order: RepartitionOrder) -> RepartitionAnswer:
    """Repartition the checkpoints of an order, up to the first that fails."""
    for checkpoint in order.checkpoints:
        try:
            unbegun = order.unbegun.get(checkpoint)
            if unbegun is not None:
                remove_plan(checkpoint_store(session, checkpoint), unbegun)
            repartition(session, checkpoint, order.partitions)
        except Exception as err:  # noqa: BLE001 - whatever went wrong is the answer
            told = condition_of(err)
            if told == DONE_ALREADY:
                continue
            logger.exception("The state of %s was not repartitioned.", checkpoint)
            return RepartitionAnswer(
                condition=told, failed=f"{checkpoint}: {sentence_of(error_of(err))}"
            )
    return RepartitionAnswer()


def checkpoint_store(session: Any, checkpoint: str) -> Store:
    context = session.sparkContext
    return HadoopStore(checkpoint, context._gateway, context._jsc.hadoopConfiguration())


def remove_plan(checkpoint: Store, batch: int) -> bool:
    """Remove the plan of a batch if it is the newest and only the one before it is committed."""
    newest = [newest_batch(checkpoint.names(log)) for log in ("offsets", "commits")]
    if newest != [batch, batch - 1]:
        return False
    logger.info("Removing the plan of batch %d, which no driver has begun.", batch)
    checkpoint.delete(f"offsets/{batch}")
    return True


def newest_batch(names: Sequence[str]) -> int:
    """Return the newest batch that a log has a file of, or -1."""
    return max((batch for batch in map(batch_of, names) if batch is not None), default=-1)


def repartition(session: Any, checkpoint: str, partitions: int) -> None:
    """Give the state of one checkpoint another number of partitions."""
    # Not public in Python yet: pyspark has it on the classic session alone, and under a name of its own.
    from pyspark.sql.streaming.query import StreamingCheckpointManager

    manager = StreamingCheckpointManager(session._jsparkSession.streamingCheckpointManager())
    manager.repartition(checkpoint, partitions)


def condition_of(err: Exception) -> str:
    """
    Return the error condition of the innermost cause that has one, else the error's class name.

    Reads the Java exceptions, because PySpark does not translate these errors.
    """
    java, found = getattr(err, "java_exception", None), ""
    while java is not None:
        with contextlib.suppress(Exception):  # not every exception of Java has a condition
            found = str(java.getCondition() or found)
        java = java.getCause()
    told = getattr(err, "getCondition", lambda: None)()
    return found or str(told or type(err).__name__)
