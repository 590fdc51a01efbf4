"""
Spark's scheduler backend: asks the cluster for executors, and removes some.

Standalone, YARN and Kubernetes share ``CoarseGrainedSchedulerBackend``. ``SparkContext.killExecutors`` would lower the
requested total a second time, and to 0 where it was never set, so executors are removed through the backend itself.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from airflow_streaming.driver.resizing.decide import most_executors

_ELASTIC: Final = "org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend"
_DECOMMISSION: Final = "spark.decommission.enabled"
_MOST_LOOKED_UP: Final = 2_000
"""Partitions of state whose executor is looked up; each costs a message inside the driver, about a millisecond."""
_STORE: Final = "default"
"""Store of an operator. A join of streams has several others; they are not looked up."""


class ExecutorBackend(Protocol):
    """The executors of one application."""

    @property
    def conf(self) -> Mapping[str, str]:
        """Return its whole configuration."""

    @property
    def is_elastic(self) -> bool:
        """Tell whether it takes requests for executors."""

    def alive(self) -> list[str]:
        """Return the executors that take tasks."""

    def begin_with(self, executors: int) -> list[str]:
        """Return executors that a standalone master has started beyond a number, after giving them back."""

    def ask_for(self, executors: int) -> None:
        """Ask the cluster for a number of executors in all."""

    def remove(self, ids: Sequence[str]) -> None:
        """Remove executors, which are not replaced."""

    def loaded_state(self, queries: Sequence[Any]) -> Mapping[str, int]:
        """
        Return the loaded partitions of state by executor.

        :param queries: Queries of Spark.
        """

    def spread_state(self, queries: Sequence[Any]) -> None:
        """Forget which executor has which state, so that the next batch spreads it over all of them."""


class SparkBackend:
    """
    The executors of a Spark context.

    :param context: The ``SparkContext`` of PySpark.
    """

    def __init__(self, context: Any) -> None:
        self.context, self._jvm, self._gateway = context, context._jvm, context._gateway
        self._spark = context._jsc.sc()
        self._backend = self._spark.schedulerBackend()
        self.conf: Mapping[str, str] = dict(context.getConf().getAll())
        self.is_elastic = _is_a(self._gateway, self._backend, _ELASTIC)

    def alive(self) -> list[str]:
        ids = self._backend.getExecutorIds()
        found = [str(ids.apply(place)) for place in range(ids.size())]
        return [one for one in found if self._backend.isExecutorActive(one)]

    def begin_with(self, executors: int) -> list[str]:
        most = most_executors(self.conf)
        if most is None or most <= executors:
            return []
        self.ask_for(executors)
        # The master numbers them from 0, and starts them before a request for fewer can come.
        surplus = [str(number) for number in range(executors, most)]
        self._backend.doKillExecutors(self._sequence(surplus))
        return surplus

    def ask_for(self, executors: int) -> None:
        nothing = self._jvm.scala.Predef.Map().empty()
        self._spark.requestTotalExecutors(executors, 0, nothing)

    def remove(self, ids: Sequence[str]) -> None:
        if self.conf.get(_DECOMMISSION, "").lower() == "true":
            scheduler = self._jvm.org.apache.spark.scheduler
            why = scheduler.ExecutorDecommissionInfo("the stream got smaller", self._none())
            pairs = self._gateway.new_array(self._jvm.scala.Tuple2, len(ids))
            for place, one in enumerate(ids):
                pairs[place] = self._jvm.scala.Tuple2(one, why)
            self._backend.decommissionExecutors(pairs, False, False)
            return
        adjusts_total, counts_failures, force = False, False, True
        self._backend.killExecutors(self._sequence(ids), adjusts_total, counts_failures, force)

    def loaded_state(self, queries: Sequence[Any]) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for execution in map(_execution, queries):
            coordinator = _coordinator(execution)
            for place in islice(self._places(execution), _MOST_LOOKED_UP):
                location = coordinator.getLocation(place)
                if location.isDefined():
                    # As Spark writes it: executor_<host>_<id>
                    found[str(location.get()).rpartition("_")[2]] += 1
        return found

    def spread_state(self, queries: Sequence[Any]) -> None:
        for execution in map(_execution, queries):
            if _state_partitions(execution):
                _coordinator(execution).deactivateInstances(execution.runId())

    def _places(self, execution: Any) -> Iterator[Any]:
        state = self._jvm.org.apache.spark.sql.execution.streaming.state
        make, provider = state.StateStoreId, state.StateStoreProviderId
        root, run = execution.checkpointFile("state"), execution.runId()
        for operator, partitions in enumerate(_state_partitions(execution)):
            for partition in range(partitions):
                yield provider(make(root, operator, partition, _STORE), run)

    def _sequence(self, ids: Sequence[str]) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(ids))

    def _none(self) -> Any:
        return self._jvm.scala.Option.empty()


def _is_a(gateway: Any, java: Any, name: str) -> bool:
    from py4j.java_gateway import is_instance_of

    return bool(is_instance_of(gateway, java, name))


def _execution(jsq: Any) -> Any:
    execution = jsq
    with contextlib.suppress(Exception):
        execution = jsq.streamingQuery()
    return execution


def _coordinator(execution: Any) -> Any:
    return execution.sparkSession().streams().stateStoreCoordinator()


def _state_partitions(execution: Any) -> list[int]:
    """Return the partitions of each stateful operator, as the last batch reports them."""
    progress = execution.lastProgress()
    if progress is None:
        return []
    return [int(operator.numShufflePartitions()) for operator in progress.stateOperators()]
