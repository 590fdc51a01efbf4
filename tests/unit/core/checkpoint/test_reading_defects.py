"""Every defect of the table in docs/checkpoints.md, made in a golden checkpoint, is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_streaming.core.checkpoint.finding import FindingCode
from airflow_streaming.core.checkpoint.listing import RESTORE_MARKER
from tests.unit.core.checkpoint.in_memory import InMemory, golden, hidden

Break = Callable[[InMemory], object]

TWO_BEHIND = ("commits/10", "commits/11")
STATE_VARIABLES = Path(__file__).parent / "state_variables"
SCHEMA = "state/0/_stateSchema/default/0_0f52bea6-386a-48c0-bd3c-c51bff4e2053"


def edit_with_stale_checksum(it: InMemory) -> None:
    checksum = it.files[hidden("offsets/11")]
    it.replace("offsets/11", '{"logOffset":11}', '{"logOffset":10}')
    it.files[hidden("offsets/11")] = checksum


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


def delete_an_sst(it: InMemory) -> None:
    ssts = [path for path in it.files if path.startswith("state/0/1/SSTs/0")]
    it.delete(max(ssts))


TABLE: list[tuple[str, str, Break, FindingCode]] = [
    (
        "plans two ahead of the commits lose a batch of a query without state",
        "stateless",
        lambda it: it.delete(*TWO_BEHIND),
        FindingCode.BATCHES_SKIPPED,
    ),
    (
        "plans two ahead of the commits lose a batch of a query with state",
        "agg",
        lambda it: it.delete("commits/5", "commits/6"),
        FindingCode.BATCHES_SKIPPED,
    ),
    (
        "a commit whose plan is gone runs into another writer that is none",
        "stateless",
        lambda it: it.delete("offsets/11"),
        FindingCode.COMMIT_WITHOUT_PLAN,
    ),
    (
        "without commits the last batch runs twice",
        "agg",
        lambda it: it.delete("commits"),
        FindingCode.COMMITS_MISSING,
    ),
    (
        "commits without any plan fail an assertion",
        "agg",
        lambda it: it.delete("offsets"),
        FindingCode.OFFSETS_MISSING,
    ),
    (
        "the plan before the newest is needed",
        "stateless",
        lambda it: it.delete("offsets/10"),
        FindingCode.OFFSETS_GAP,
    ),
    (
        "a hole among older plans is somebody's doing",
        "stateless",
        lambda it: it.delete("offsets/6"),
        FindingCode.OFFSETS_GAP,
    ),
    (
        "a hole among commits is somebody's doing",
        "stateless",
        lambda it: it.delete("commits/6"),
        FindingCode.COMMITS_GAP,
    ),
    (
        "an empty plan cannot be read",
        "agg",
        lambda it: it.write("offsets/6", b""),
        FindingCode.LOG_UNREADABLE,
    ),
    (
        "a torn commit cannot be read",
        "agg",
        lambda it: it.truncate("commits/6"),
        FindingCode.LOG_UNREADABLE,
    ),
    (
        "a plan that lost its last source is torn",
        "join",
        lambda it: it.write("offsets/3", it.files["offsets/3"].rpartition(b"\n")[0]),
        FindingCode.LOG_UNREADABLE,
    ),
    (
        "a plan without any source is torn",
        "agg",
        lambda it: it.write("offsets/6", it.files["offsets/6"].rpartition(b"\n")[0]),
        FindingCode.LOG_UNREADABLE,
    ),
    (
        "a plan that ends in the middle of an offset is torn",
        "agg",
        lambda it: it.write("offsets/6", it.files["offsets/6"][:-3]),
        FindingCode.LOG_UNREADABLE,
    ),
    (
        "an old log file that is empty points to the disk",
        "stateless",
        lambda it: it.write("commits/3", b"\0" * 20),
        FindingCode.LOG_UNREADABLE,
    ),
    (
        "a log file of many megabytes is not read",
        "agg",
        lambda it: it.write("offsets/6", b"v1\n" + b" " * 1024 * 1024),
        FindingCode.TOO_LARGE,
    ),
    (
        "a log of a newer Spark is not guessed at",
        "agg",
        lambda it: it.replace("offsets/6", "v1\n", "v7\n"),
        FindingCode.LOG_VERSION_UNKNOWN,
    ),
    (
        "an edited plan differs from its stale checksum",
        "stateless",
        edit_with_stale_checksum,
        FindingCode.LOG_EDITED,
    ),
    (
        "the query's id is gone",
        "agg",
        lambda it: it.delete("metadata"),
        FindingCode.METADATA_MISSING,
    ),
    (
        "the query's id cannot be read",
        "agg",
        lambda it: it.truncate("metadata"),
        FindingCode.METADATA_UNREADABLE,
    ),
    (
        "the log of a file source is behind the plan",
        "agg",
        lambda it: it.delete("sources/0/5"),
        FindingCode.SOURCE_LOG_BEHIND,
    ),
    (
        "the log of a file source has a hole",
        "agg",
        lambda it: it.delete("sources/0/2"),
        FindingCode.SOURCE_LOG_BEHIND,
    ),
    (
        "the newest compacted entry is gone",
        "many_batches",
        lambda it: it.delete("sources/0/29.compact"),
        FindingCode.SOURCE_LOG_BEHIND,
    ),
    (
        "the log of a file source is missing",
        "join",
        lambda it: it.delete("sources/1"),
        FindingCode.SOURCE_LOG_MISSING,
    ),
    (
        "an entry of a file source is torn",
        "agg",
        lambda it: it.truncate("sources/0/5"),
        FindingCode.SOURCE_LOG_UNREADABLE,
    ),
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
    (
        "a restore did not finish",
        "agg",
        lambda it: it.write(RESTORE_MARKER, b"{}"),
        FindingCode.UNFINISHED_RESTORE,
    ),
    (
        "a link lies in the checkpoint",
        "agg",
        lambda it: it.strange.update({"state/0/3": "symbolic link"}),
        FindingCode.STRANGE_FILE,
    ),
    (
        "nothing of a checkpoint is there",
        "agg",
        lambda it: it.delete("metadata", "offsets", "commits"),
        FindingCode.NOT_A_CHECKPOINT,
    ),
]


@pytest.mark.parametrize(
    ("shape", "break_it", "code"),
    [pytest.param(shape, how, code, id=name) for name, shape, how, code in TABLE],
)
def test_a_defect_is_found(shape: str, break_it: Break, code: FindingCode) -> None:
    broken = golden(shape)

    break_it(broken)

    found = broken.report()
    assert code in {problem.code for problem in found.problems}
    assert not found.is_sound
    for problem in found.problems:
        assert "Spark" in problem.message
        assert problem.message.endswith(".")
        assert 100 < len(problem.message) < 1000


@pytest.mark.parametrize("shape", ["agg_rocks", "agg_rocks_changelog", "agg_rocks_v2"])
def test_an_sst_file_that_the_newest_zip_names_and_is_gone_is_found(shape: str) -> None:
    broken = golden(shape)

    delete_an_sst(broken)

    assert broken.problems() & {
        FindingCode.STATE_VERSION_MISSING,
        FindingCode.STATE_FILE_DAMAGED,
    }


@pytest.mark.parametrize(
    ("code", "path"),
    [
        (FindingCode.OPERATOR_METADATA_MISSING, "state/0/_metadata/metadata"),
        (FindingCode.STATE_SCHEMA_MISSING, "state/0/0/_metadata/schema"),
    ],
)
def test_what_an_older_spark_never_wrote_is_not_missed(code: FindingCode, path: str) -> None:
    old = golden("agg", "3.5.9")
    if path in old.files:
        for batch in range(7):
            # As Spark 3.0 pinned it.
            old.write(f"offsets/{batch}", _without_conf(old.files[f"offsets/{batch}"]))
        old.delete(path)

    assert code not in old.problems()


def test_state_of_another_timeline_does_no_harm_in_format_2() -> None:
    rewound = golden("agg_rocks_v2")

    leave_newer_state(rewound)

    assert rewound.report().problems == ()


def _without_conf(data: bytes) -> bytes:
    version, _, offsets = data.decode().split("\n", 2)
    about = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
    return f"{version}\n{about}\n{offsets}".encode()
