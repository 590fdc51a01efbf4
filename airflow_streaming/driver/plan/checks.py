"""
The checks that Spark makes only when a streaming query starts, made without a start.

Whether the plan can be run as a stream in its output mode, and whether files and Kafka take the columns and
partitions. A check that cannot be made becomes a note. The gates hold further checks as a table,
``gates.start_checks``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow_streaming.model.spark.conf import parse_spark_version

FILES: Final = frozenset({"parquet", "json", "csv", "orc", "text", "avro", "xml"})
_CHECKS_PARTITIONS: Final = (4, 3)
"""The release from which a stream checks the types of partition columns."""
_MODES: Final = frozenset({"append", "update", "complete"})


def refusal_of(
    frame: Any,
    gateway: Any,
    *,
    mode: str,
    sink: str,
    form: str,
    partitioned_by: Sequence[str],
    trigger: str,
    options: Mapping[str, str],
    notes: list[str],
) -> str:
    """
    Return why Spark would refuse a query in its first second; empty where it would not.

    :param frame: The streaming rows in the JVM.
    :param sink: ``file`` or any other, as in ``SinkPlan``.
    :param form: Format of a file sink.
    :param options: Of the writer, with keys in small letters.
    :param notes: Gets a sentence for a check that could not be made.
    """
    checks = _Checks(frame, gateway)
    found = checks.plan(mode, trigger)
    if not found and sink == "file" and form in FILES:
        found = checks.columns(form, partitioned_by)
    if not found and sink == "kafka":
        found = checks.kafka(options)
    notes += checks.notes
    return found


class _Checks:
    def __init__(self, frame: Any, gateway: Any) -> None:
        self._frame, self._sql = frame, gateway.jvm.org.apache.spark.sql
        self._gateway = gateway
        self.notes: list[str] = []

    def plan(self, mode: str, trigger: str) -> str:
        """Ask whether the plan can run as a stream."""
        if mode not in _MODES:
            return f"Spark knows no output mode {mode!r}."
        checker = self._sql.catalyst.analysis.UnsupportedOperationChecker
        try:
            outputs = self._sql.catalyst.streaming.InternalOutputModes.apply(mode)
            plan = self._frame.queryExecution().analyzed()
        except Exception as err:  # noqa: BLE001 - another Spark
            return self._note("of the plan", err)
        check = (
            checker.checkForContinuous
            if trigger.startswith("continuous")
            else checker.checkForStreaming
        )
        return self._refused("of the plan", lambda: check(plan, outputs))

    def columns(self, form: str, partitioned_by: Sequence[str]) -> str:
        """Ask whether files can hold the columns and folders the partition columns."""
        try:
            schema = self._frame.schema()
            session = self._frame.sparkSession()
            conf = session.sessionState().conf()
            release = parse_spark_version(str(session.version()))[:2]
            datasources = self._sql.execution.datasources
            kind = datasources.DataSource.lookupDataSource(form, conf)
            made = self._made(kind)
            if not str(made.getClass().getName()).endswith("FileFormat"):
                made = self._made(made.fallbackFileFormat())
        except Exception as err:  # noqa: BLE001 - as above
            return self._note("of the columns", err)
        if partitioned_by and release >= _CHECKS_PARTITIONS:
            names = self._gateway.jvm.PythonUtils.toSeq([*partitioned_by])
            matters = bool(conf.caseSensitiveAnalysis())
            check = datasources.PartitioningUtils.validatePartitionColumn
            found = self._refused("of the partitions", lambda: check(schema, names, matters))
            if found:
                return found
        return self._refused("of the columns", lambda: self._verify(made, schema))

    def kafka(self, options: Mapping[str, str]) -> str:
        """Ask the connector whether it takes the columns and options. The brokers are not involved."""
        jvm = self._gateway.jvm
        try:
            java_options = jvm.java.util.HashMap()
            for key, value in options.items():
                java_options.put(key, value)
            java = self._sql.util.CaseInsensitiveStringMap(java_options)
            conf = self._frame.sparkSession().sessionState().conf()
            kind = self._sql.execution.datasources.DataSource.lookupDataSource("kafka", conf)
            none = jvm.java.util.Optional.empty()
            info = self._sql.connector.write.LogicalWriteInfoImpl(
                "plan", self._frame.schema(), java, none, none
            )
            builder = self._made(kind).getTable(java).newWriteBuilder(info)
        except Exception as err:  # noqa: BLE001 - a vendor's connector; the gates have the same checks as a table
            return _sentence(err) if _is_of_spark(err) else ""
        return self._refused("of the Kafka sink", lambda: builder.build().toStreaming())

    def _verify(self, made: Any, schema: Any) -> None:
        utils = self._sql.execution.datasources.DataSourceUtils
        try:
            utils.verifySchema(made, schema, False)
        except Exception as err:
            if _is_of_spark(err):
                raise
            utils.verifySchema(made, schema)

    def _made(self, kind: Any) -> Any:
        constructor = kind.getConstructor(self._none("java.lang.Class"))
        return constructor.newInstance(self._none("java.lang.Object"))

    def _none(self, kind: str) -> Any:
        found: Any = self._gateway.jvm
        for part in kind.split("."):
            found = getattr(found, part)
        return self._gateway.new_array(found, 0)

    def _refused(self, what: str, ask: Any) -> str:
        try:
            ask()
        except Exception as err:  # noqa: BLE001 - both Spark's refusals and py4j's faults
            if _is_of_spark(err):
                return _sentence(err)
            return self._note(what, err)
        return ""

    def _note(self, what: str, err: Exception) -> str:
        self.notes.append(f"Spark's own check {what} could not be made: {type(err).__name__}.")
        return ""


def _is_of_spark(err: Exception) -> bool:
    """Tell whether Spark refused, and not py4j, which found no such method."""
    if hasattr(err, "getErrorClass") or hasattr(err, "getCondition"):
        return True
    java = getattr(err, "java_exception", None)
    if java is None:
        return False
    name = str(java.getClass().getName())
    return name.startswith("org.apache.spark.")


def _sentence(err: Exception) -> str:
    text = str(getattr(err, "desc", None) or getattr(err, "_desc", None) or err)
    return text.partition("\n")[0].partition(";")[0].strip()[:500] or type(err).__name__
