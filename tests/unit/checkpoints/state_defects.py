"""Defects of the state of a golden checkpoint."""

from __future__ import annotations

from pathlib import Path

from airflow_streaming.checkpoints.read.report import FindingCode
from tests.unit.checkpoints.in_memory import Break, InMemory

STATE_VARIABLES = Path(__file__).parent / "state_variables"
SCHEMA = "state/0/_stateSchema/default/0_0f52bea6-386a-48c0-bd3c-c51bff4e2053"


def leave_newer_state(it: InMemory) -> None:
    it.delete("offsets/4", "offsets/5", "offsets/6", "commits/4", "commits/5", "commits/6")


def plan_repartition(it: InMemory) -> None:
    newest = it.files["offsets/6"].decode()
    it.write("offsets/7", newest.replace('shuffle.partitions":"3"', 'shuffle.partitions":"5"'))


def lower_pinned_partitions(it: InMemory) -> None:
    for batch in (5, 6):
        it.replace(f"offsets/{batch}", 'shuffle.partitions":"3"', 'shuffle.partitions":"2"')


def use_state_variables(it: InMemory, *, there: bool, folder: str = "file:/data/orders") -> None:
    metadata = (STATE_VARIABLES / "operator_metadata-4.3.0").read_text(encoding="utf-8")
    it.delete("state/0/_metadata/metadata", "state/0/0/_metadata/schema")
    it.write("state/0/_metadata/v2/0", metadata.replace("file:/data/orders", folder))
    if there:
        it.write(SCHEMA, (STATE_VARIABLES / "state_schema-4.3.0").read_bytes())


def newest_zip(it: InMemory) -> str:
    return it.newest("state/0/1", ".zip")


STATE_DEFECTS: list[tuple[str, str, Break, FindingCode]] = [
    (
        "the state folder of a query with a watermark is gone",
        "agg",
        lambda it: it.delete("state"),
        FindingCode.STATE_MISSING,
    ),
    (
        "the state folder is gone and the commits name its files",
        "agg_rocks_v2",
        lambda it: it.delete("state"),
        FindingCode.STATE_MISSING,
    ),
    (
        "an operator has its metadata and no partition",
        "agg",
        lambda it: it.delete("state/0/0", "state/0/1", "state/0/2"),
        FindingCode.STATE_MISSING,
    ),
    (
        "a store of a join is gone everywhere",
        "join",
        lambda it: it.delete(*(f"state/0/{n}/left-keyToNumValues" for n in range(3))),
        FindingCode.STATE_MISSING,
    ),
    (
        "a partition is gone",
        "agg",
        lambda it: it.delete("state/0/2"),
        FindingCode.STATE_PARTITIONS,
    ),
    (
        "fewer partitions are pinned than have state",
        "agg",
        lower_pinned_partitions,
        FindingCode.STATE_PARTITIONS,
    ),
    (
        "the newest delta is gone",
        "agg",
        lambda it: it.delete("state/0/1/7.delta"),
        FindingCode.STATE_VERSION_MISSING,
    ),
    (
        "an older delta that no snapshot replaces is gone",
        "agg",
        lambda it: it.delete("state/0/1/3.delta"),
        FindingCode.STATE_VERSION_MISSING,
    ),
    (
        "one of four stores of a partition is gone",
        "join",
        lambda it: it.delete("state/0/1/left-keyToNumValues"),
        FindingCode.STATE_VERSION_MISSING,
    ),
    (
        "the newest zip is gone",
        "agg_rocks",
        lambda it: it.delete(newest_zip(it)),
        FindingCode.STATE_VERSION_MISSING,
    ),
    (
        "the newest changelog is gone",
        "agg_rocks_changelog",
        lambda it: it.delete("state/0/1/7.changelog"),
        FindingCode.STATE_VERSION_MISSING,
    ),
    (
        "the changelog that the commit names is gone",
        "agg_rocks_v2",
        lambda it: it.delete(it.newest("state/0/1", ".changelog")),
        FindingCode.STATE_VERSION_MISSING,
    ),
    (
        "a delta is truncated",
        "agg",
        lambda it: it.truncate("state/0/1/7.delta"),
        FindingCode.STATE_FILE_DAMAGED,
    ),
    (
        "a zip is truncated",
        "agg_rocks",
        lambda it: it.truncate(newest_zip(it)),
        FindingCode.STATE_FILE_DAMAGED,
    ),
    (
        "a changelog is truncated",
        "agg_rocks_changelog",
        lambda it: it.truncate("state/0/1/7.changelog"),
        FindingCode.STATE_FILE_DAMAGED,
    ),
    (
        "state is newer than any plan",
        "agg",
        leave_newer_state,
        FindingCode.STATE_FROM_THE_FUTURE,
    ),
    (
        "zips are newer than any plan",
        "agg_rocks",
        leave_newer_state,
        FindingCode.STATE_FROM_THE_FUTURE,
    ),
    (
        "operator metadata is gone",
        "agg",
        lambda it: it.delete("state/0/_metadata/metadata"),
        FindingCode.OPERATOR_METADATA_MISSING,
    ),
    (
        "operator metadata is torn",
        "agg",
        lambda it: it.truncate("state/0/_metadata/metadata"),
        FindingCode.OPERATOR_METADATA_UNREADABLE,
    ),
    (
        "the state schema is gone",
        "agg",
        lambda it: it.delete("state/0/0/_metadata/schema"),
        FindingCode.STATE_SCHEMA_MISSING,
    ),
    (
        "the state schema of one store of a join is gone",
        "join",
        lambda it: it.delete("state/0/0/right-keyToNumValues/_metadata/schema"),
        FindingCode.STATE_SCHEMA_MISSING,
    ),
    (
        "the state schema is torn",
        "agg",
        lambda it: it.truncate("state/0/0/_metadata/schema"),
        FindingCode.STATE_SCHEMA_UNREADABLE,
    ),
    (
        "the schema file that the metadata names is gone",
        "agg",
        lambda it: use_state_variables(it, there=False),
        FindingCode.STATE_SCHEMA_MISSING,
    ),
    (
        "the metadata names the schema file of another checkpoint",
        "agg",
        lambda it: use_state_variables(it, there=True, folder="file:/data/old"),
        FindingCode.FOREIGN_PATH,
    ),
    (
        "a repartition did not finish",
        "agg",
        plan_repartition,
        FindingCode.UNFINISHED_REPARTITION,
    ),
]
