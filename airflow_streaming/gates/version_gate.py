"""
The version gate: whether another Spark may continue from a checkpoint.

Names, logs and schemas are read, and the state files that the next batch needs, up to
``CONTENT_BYTES``: what cannot be loaded is damaged, and never allowed. Of a larger state the rest is
for a backup to verify.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from airflow_streaming.checkpoints.copies import checkpoints_of
from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.read.schemas import MAX_SCHEMA_BYTES, parse_state_schema
from airflow_streaming.checkpoints.reader import Reader, query_folders
from airflow_streaming.exceptions import NothingYet, RecordError, SpecError
from airflow_streaming.gates.findings import GateFinding, GateReport, report_of
from airflow_streaming.gates.stored import DEFAULT_STORE, StoreSchema, store_schemas
from airflow_streaming.gates.version.judge import judge_version
from airflow_streaming.gates.version.matrix import Matrix, VersionQuestion, release_of
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.pipeline.flows import query_of
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.wire import parse_json
from airflow_streaming.storage.folders import Folders, open_folders

_JOIN_STORE: Final = "-keyWithIndexToValue"
_TELLING: Final = (None, "dedupe", "dedupeWithinWatermark")
"""Operators whose columns tell more than their name; Spark 3.5 and older give none."""
Judge = Callable[..., GateReport]


@cache
def load_matrix() -> Matrix:
    """
    Return the matrix that this release was shipped with.

    :raises RecordError: the installation is damaged.
    """
    data = (
        files("airflow_streaming.gates.version").joinpath("measured", "versions.json").read_bytes()
    )
    return Matrix.from_dict(parse_json(data))


def gate_version(
    checkpoints: Mapping[str, str] | str,
    from_version: str,
    to_version: str,
    *,
    conf: Mapping[str, str] | None = None,
    plans: Sequence[QueryPlan] = (),
    storage_options: Mapping[str, Any] | None = None,
    judge: Judge = judge_version,
) -> GateReport:
    """
    Judge whether queries can go from one Spark to another, and whether they can come back.

    :param checkpoints: URI of the checkpoint of each query by its name, or one URI: a checkpoint,
        or a folder of checkpoints named after the queries.
    :param conf: Configuration of the new deployment.
    :param plans: Recorded plans, found by query name; a query without one is judged by its
        checkpoint alone, and so is one whose checkpoint contradicts it.
    :param judge: ``can_come_back`` asks for the way back alone: whether ``from_version`` can read
        the checkpoints of ``to_version``. The given checkpoints are then the old Spark's.
    :raises CheckpointError: no such folder, or no checkpoint.
    :raises SpecError: not a full URI, or not a Spark version, each as text.
    """
    # Check the arguments before reading files.
    question = VersionQuestion(from_version=from_version, to_version=to_version, conf=conf or {})
    for version in (from_version, to_version):
        release_of(version)
    # Every streaming query has a source: a plan without one tells nothing but its notes.
    by_query = {plan.query: plan for plan in plans if plan.sources or not plan.notes}
    findings: list[GateFinding] = []
    for query, folders in _opened(checkpoints, storage_options).items():
        report = Reader(folders).inspect()
        judged = judge(
            question,
            report,
            _plan_of(query, by_query),
            load_matrix(),
            schemas=telling_schemas(folders, report),
            query=query,
        )
        findings += judged.findings
    return report_of(findings)


def gate_stream_version(
    home: StreamHome,
    to_version: str,
    *,
    from_version: str | None = None,
    conf: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> GateReport:
    """
    Judge a change of Spark's version by a stream's records.

    :param from_version: Default: the Spark of the newest deployment.
    :return: Empty if the stream has no deployment or no checkpoint yet.
    :raises HomeUnavailable: The home or a checkpoint's store cannot be reached.
    :raises RecordError: A record cannot be read.
    """
    deployment = home.newest_deployment()
    if deployment is None:
        return GateReport()
    try:
        checkpoints = checkpoints_of(home, storage_options).checkpoints
    except NothingYet:
        return GateReport()
    return gate_version(
        checkpoints,
        from_version or deployment.spark_version,
        to_version,
        conf=deployment.conf if conf is None else conf,
        plans=home.newest_plans(),
        storage_options=storage_options,
    )


def telling_schemas(folders: Folders, report: Checkpoint) -> list[StoreSchema] | None:
    """
    Return the schemas of joins, deduplications and unnamed operators.

    :return: ``None`` if one of them cannot be read.
    """
    found: list[StoreSchema] = []
    for operator in report.operators:
        for store in operator.stores:
            if not store.name.endswith(_JOIN_STORE) and operator.name not in _TELLING:
                continue
            inner = "" if store.name == DEFAULT_STORE else f"/{store.name}"
            path = f"state/{operator.id}/0{inner}/_metadata/schema"
            try:
                schema = parse_state_schema(folders.read(path, MAX_SCHEMA_BYTES) or b"")
            except RecordError:
                return None
            found += store_schemas(schema, operator=operator.id, path=path, store=store.name)
    return found


def _opened(
    checkpoints: Mapping[str, str] | str, storage_options: Mapping[str, Any] | None
) -> dict[str, Folders]:
    if isinstance(checkpoints, Mapping):
        named = {name: _text(uri) for name, uri in checkpoints.items()}
        return {name: open_folders(uri, storage_options) for name, uri in named.items()}
    checkpoints = _text(checkpoints)
    folders = open_folders(checkpoints, storage_options)
    return {query_of(name): folders.below(name) for name in query_folders(folders)}


def _text(uri: object) -> str:
    if isinstance(uri, str):
        return uri
    raise SpecError(
        f"{repr(uri)[:60]} is not a checkpoint. Pass its URI as text, like "
        "'s3://bucket/checkpoints/orders', or such URIs by query."
    )


def _plan_of(query: str, plans: Mapping[str, QueryPlan]) -> QueryPlan | None:
    # A checkpoint given by its URI has no name, and a single plan can only be its own.
    if not query and len(plans) == 1:
        return next(iter(plans.values()))
    return plans.get(query)
