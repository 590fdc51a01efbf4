"""
Real-time mode: which queries Spark runs in it, how often they commit, and how many task slots they hold.

A batch is a checkpoint interval. Rows are written as they come; offsets, commits and figures are written when the
interval ends. The tasks of all stages run for the whole interval, so each needs a slot of its own.

Sources: Spark's guide to real-time mode, ``RealTimeModeAllowlist`` of the jars of 4.3.0, and starts on 4.3.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_streaming.model.spark.conf import executors_wanted, has_executors, parse_spark_version
from airflow_streaming.model.spark.plan import OperatorKind, QueryPlan

WORD: Final = "real time"
"""Beginning of the trigger in a plan, before the interval as the script spells it."""
LEAST_SECONDS: Final = 5.0
"""``spark.sql.streaming.realTimeMode.minBatchDuration`` by default."""
DEFAULT_SECONDS: Final = 300.0
FIRST_STATEFUL: Final = (4, 3)
_SINKS: Final = frozenset({"kafka", "foreach", "console", "memory"})
_SOURCES: Final = frozenset({"kafka"})
_NOT_SOURCES: Final = frozenset({"file", "rate", "rate-micro-batch", "socket"})
"""Spark's own sources without real-time mode. Of a source of others only its jar knows."""
_OPERATORS: Final = frozenset({OperatorKind.AGGREGATE, OperatorKind.DEDUPLICATE})
_PYTHON_STEPS: Final = frozenset({"MapInPandas", "MapInArrow", "PythonMapInArrow"})
_CHECK: Final = "spark.sql.streaming.realTimeMode.allowlistCheck"
_LEAST: Final = "spark.sql.streaming.realTimeMode.minBatchDuration"
_STEP: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_UNITS: Final = {
    "microsecond": 1e-6,
    "us": 1e-6,
    "millisecond": 1e-3,
    "ms": 1e-3,
    "second": 1.0,
    "s": 1.0,
    "minute": 60.0,
    "min": 60.0,
    "m": 60.0,
    "hour": 3600.0,
    "h": 3600.0,
    "day": 86_400.0,
    "d": 86_400.0,
    "week": 604_800.0,
}


def is_real_time(trigger: str) -> bool:
    """Tell whether the processing trigger of a plan is real-time mode."""
    return trigger.startswith(WORD)


def interval_of(trigger: str) -> float | None:
    """Return the seconds between the commits of a trigger in real-time mode; ``None`` where it is not readable."""
    if not is_real_time(trigger):
        return None
    text = trigger.removeprefix(WORD).strip().lower().removeprefix("interval ")
    parts = [(number, unit) for number, unit in _STEP.findall(text)]
    known = [_UNITS.get(unit) or _UNITS.get(unit.removesuffix("s")) for _, unit in parts]
    if not parts or _STEP.sub("", text).strip() or None in known:
        return None
    return sum(float(part[0]) * unit for part, unit in zip(parts, known, strict=True) if unit)


def refusals_of(plan: QueryPlan) -> Iterator[tuple[str, str]]:
    """Yield why Spark would not run a query in real-time mode: a place in the plan, and a sentence."""
    interval, settings = interval_of(plan.processing_trigger), {**plan.conf, **plan.settings}
    if interval is None:
        return
    if plan.output_mode != "update":
        yield (
            "output_mode",
            f"The output mode is {plan.output_mode}; real-time mode takes update only.",
        )
    if interval < LEAST_SECONDS and _LEAST not in settings:
        yield (
            "processing_trigger",
            f"The interval is {interval:g} s; the least is {LEAST_SECONDS:g} s ({_LEAST}).",
        )
    for number, source in enumerate(plan.sources):
        if source.source in _NOT_SOURCES:
            yield (
                f"sources[{source.name or number}]",
                f"The source {source.source} does not run in real-time mode.",
            )
    if settings.get(_CHECK) != "false":
        yield from _not_listed(plan)


def _not_listed(plan: QueryPlan) -> Iterator[tuple[str, str]]:
    if plan.sink.sink not in _SINKS:
        yield (
            "sink",
            f"The sink {plan.sink.sink} does not run in real-time mode. {', '.join(sorted(_SINKS))} do.",
        )
    has_state = parse_spark_version(plan.spark)[:2] >= FIRST_STATEFUL
    for number, operator in enumerate(plan.operators):
        if operator.sort not in _OPERATORS:
            yield (
                f"operators[{number}]",
                f"The operator {operator.sort} does not run in real-time mode.",
            )
        elif not has_state:
            yield (
                f"operators[{number}]",
                f"State in real-time mode needs Spark 4.3, not {plan.spark}.",
            )
    for node in plan.nodes:
        if node.node in _PYTHON_STEPS:
            yield "steps", f"{node.node} does not run in real-time mode."


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDemand:
    """
    The task slots that queries in real-time mode hold, and the slots there are.

    :param readers: Partitions of the topics that the query reads.
    :param stateful: Tasks behind its shuffles.
    :param others: Slots that other queries in real-time mode of the same application hold.
    """

    readers: int
    stateful: int = 0
    others: int = 0
    slots: int | None = None

    @property
    def needed(self) -> int:
        return self.readers + self.stateful + self.others

    @property
    def is_short(self) -> bool:
        """Tell whether there are too few; not where their number is unknown."""
        return self.slots is not None and self.needed > self.slots

    @property
    def sentence(self) -> str:
        """Return the demand and the remedy in words."""
        parts = [f"{self.readers} to read partitions"]
        parts += [f"{self.stateful} behind shuffles"] if self.stateful else []
        parts += [f"{self.others} for other queries"] if self.others else []
        return (
            f"It needs {self.needed} task slots at once ({', '.join(parts)}) and the application has {self.slots}. "
            "Partitions without a slot would never be read. Give it more cores, or lower spark.sql.shuffle.partitions."
        )


def slots_of(conf: Mapping[str, str], parallelism: int) -> int | None:
    """
    Return the tasks that an application can run at once; ``None`` where its configuration does not say.

    :param conf: The application's whole configuration.
    :param parallelism: Spark's default parallelism, which is the number of threads in local mode.
    """
    each = _whole(conf.get("spark.task.cpus"), 1)
    master = conf.get("spark.master", "")
    if not has_executors(master):
        return parallelism // each
    cores, most = conf.get("spark.executor.cores"), conf.get("spark.cores.max")
    if conf.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        conf = {**conf, "spark.dynamicAllocation.enabled": "false"}
        conf["spark.executor.instances"] = conf.get("spark.dynamicAllocation.maxExecutors", "")
        if not conf["spark.executor.instances"].isdecimal():
            return None
    executors = executors_wanted(conf)
    is_shared = master == "yarn" or master.startswith("k8s://")
    if executors is not None and (cores or is_shared):
        return executors * (_whole(cores, 1) // each)
    return int(most) // each if most and most.isdecimal() else None


def _whole(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isdecimal() and int(text) else otherwise
