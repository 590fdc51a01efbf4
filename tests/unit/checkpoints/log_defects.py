"""Defects of the logs of a golden checkpoint, and of the checkpoint as a whole."""

from __future__ import annotations

from airflow_streaming.checkpoints.read.report import FindingCode
from airflow_streaming.model.spark.listing import RESTORE_MARKER
from tests.unit.checkpoints.in_memory import Break, InMemory, hidden

TWO_BEHIND = ("commits/10", "commits/11")


def edit_with_stale_checksum(it: InMemory) -> None:
    checksum = it.files[hidden("offsets/11")]
    it.replace("offsets/11", '{"logOffset":11}', '{"logOffset":10}')
    it.files[hidden("offsets/11")] = checksum


def flip_a_bit_of_the_id(it: InMemory) -> None:
    data = bytearray(it.files["metadata"])
    data[10] ^= 1
    # Written past ``write``, which takes the checksum away.
    it.files["metadata"] = bytes(data)


def rename(it: InMemory, old: str, new: str) -> None:
    it.write(new, it.files[old])
    it.delete(old)


LOG_DEFECTS: list[tuple[str, str, Break, FindingCode]] = [
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
        "the query's id has a flipped bit",
        "agg",
        flip_a_bit_of_the_id,
        FindingCode.LOG_EDITED,
    ),
    (
        "the query's id is none that Java takes",
        "agg",
        lambda it: it.write("metadata", b'{"id":"../../etc"}'),
        FindingCode.METADATA_UNREADABLE,
    ),
    (
        "the newest plan has leading zeros in its name",
        "stateless",
        lambda it: rename(it, "offsets/11", "offsets/0011"),
        FindingCode.BATCH_MISNAMED,
    ),
    (
        "both of the newest batch have",
        "stateless",
        lambda it: (
            rename(it, "offsets/11", "offsets/011"),
            rename(it, "commits/11", "commits/011"),
        )[0],
        FindingCode.BATCH_MISNAMED,
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
