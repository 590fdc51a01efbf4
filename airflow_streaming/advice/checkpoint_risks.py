"""Risks of where checkpoints lie: on one disk, in a temporary folder, or in the way of another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Final

from airflow_streaming.advice.examined import (
    NO_DRIVER,
    Advice,
    Facts,
    OtherStream,
    RiskLevel,
    fine,
    risk,
    unknown,
)

Place = tuple[str, ...]
"""A URI as its scheme (empty when local) and its parts, however it is spelled."""
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
_SAME: Final = {"file": "", "local": "", "s3": "s3a", "s3n": "s3a", "gcs": "gs", "az": "abfss"}
_TEMPORARY: Final = (
    ("tmp",),
    ("var", "tmp"),
    ("dev", "shm"),
    ("private", "tmp"),
    ("private", "var", "folders"),
)


def place(uri: str) -> Place:
    """Return a URI in the one form in which two spellings of a place are equal."""
    match = _SCHEME.match(uri)
    scheme, rest = (match[1].lower(), uri[match.end() :]) if match else ("", uri)
    parts = (part for part in rest.split("/") if part not in ("", "."))
    return (_SAME.get(scheme, scheme), *parts)


def _is_in(inner: Place, outer: Place) -> bool:
    return inner[: len(outer)] == outer


def _overlap(one: str, other: str) -> bool:
    return _is_in(place(one), place(other)) or _is_in(place(other), place(one))


def local_disk(facts: Facts) -> Iterator[Advice]:
    """Look for a checkpoint on one machine's disk while the executors are on others."""
    rule, application = "checkpoint-on-local-disk", _application(facts)
    for name, checkpoint in _checkpoints(facts):
        if place(checkpoint)[0] != "":
            yield fine(rule, f"{checkpoint} is not a local folder.", query=name)
        elif application is None:
            yield unknown(
                rule,
                f"{checkpoint} is a local folder; whether the master is a cluster is not recorded.",
                query=name,
            )
        elif application.startswith("local-"):
            yield fine(rule, "Driver and executors are one local process.", query=name)
        else:
            yield risk(
                rule,
                RiskLevel.HIGH,
                "Executors on other machines write state where the driver does not find it again.",
                query=name,
                evidence=f"{checkpoint} is a local folder; application {application} runs on a "
                "cluster",
                remedy="Put the checkpoint on storage that all machines share (an object store or "
                "HDFS). A folder mounted at the same path everywhere is such storage too.",
            )


def _application(facts: Facts) -> str | None:
    # The master comes from an Airflow connection; what Spark made of it shows in the id.
    return facts.status.application_id if facts.status is not None else None


def temporary(facts: Facts) -> Iterator[Advice]:
    """Look for a checkpoint in a folder for temporary files."""
    rule = "temporary-checkpoint"
    for name, checkpoint in _checkpoints(facts):
        if _is_temporary(place(checkpoint)):
            yield risk(
                rule,
                RiskLevel.HIGH,
                "The checkpoint is in a folder for temporary files, which gets emptied.",
                query=name,
                evidence=checkpoint,
                remedy="Stop the stream, move the checkpoint whole, and name its new place in the "
                "stream. Leave nothing of it behind.",
            )
        else:
            yield fine(rule, f"{checkpoint} is not a temporary folder.", query=name)


def _is_temporary(found: Place) -> bool:
    scheme, *parts = found
    folders = tuple(parts)
    if any(part.startswith("temporary-") for part in folders):  # Spark's own, deleted at its end
        return True
    if scheme == "":
        return any(folders[: len(root)] == root for root in _TEMPORARY)
    # Behind the name node, or at once when the URI has none.
    return scheme in ("hdfs", "viewfs") and "tmp" in folders[:2]


def output_in_checkpoint(facts: Facts) -> Iterator[Advice]:
    """Look for output and checkpoint in each other."""
    rule, output = "output-in-checkpoint", facts.deployment.output
    if not any("{output}" in argument for argument in facts.deployment.application_args):
        yield unknown(rule, "The script chooses its output itself; it is not recorded.")
        return
    clashes = [(n, c) for n, c in _checkpoints(facts) if _overlap(c, output)]
    for name, checkpoint in clashes:
        yield risk(
            rule,
            RiskLevel.HIGH,
            "A task that cleans up, copies or reads one of the folders also meets the other.",
            query=name,
            evidence=f"output {output}, checkpoint {checkpoint}",
            remedy="Give output and checkpoint folders of their own, side by side.",
        )
    if not clashes:
        yield fine(rule, f"{output} is apart from every checkpoint.")


def backup_store(facts: Facts) -> Iterator[Advice]:
    """Look for a backup store that is not in its place."""
    rule = "backup-store"
    if not facts.stores:
        yield fine(rule, "This home has written no backup yet.")
    for store in facts.stores:
        if store.absence:
            yield risk(
                rule,
                RiskLevel.HIGH,
                "No backup can be taken, verified or restored, and every backup task fails.",
                evidence=store.absence,
                remedy="Mount the store's volume again, or correct its path, bucket or host. "
                "If the backups were removed on purpose, delete the record of the "
                "store in the home too.",
            )
        else:
            yield fine(rule, f"The backup store {store.uri} is in its place.")


def shared(facts: Facts) -> Iterator[Advice]:
    """Look for two queries on one checkpoint."""
    rule = "shared-checkpoint"
    clashes = [
        *_shared_within(rule, facts),
        *(advice for other in facts.others for advice in _shared_with(rule, facts, other)),
    ]
    yield from clashes
    if not facts.queries:
        yield unknown(rule, NO_DRIVER)
    elif not clashes:
        yield fine(rule, f"No other query writes here; {len(facts.others)} other streams checked.")


def _shared_within(rule: str, facts: Facts) -> Iterator[Advice]:
    for one, other in combinations(facts.queries, 2):
        if _overlap(one.checkpoint, other.checkpoint):
            yield _clash(rule, one.name, f"query {other.name}", one.checkpoint, other.checkpoint)


def _shared_with(rule: str, facts: Facts, other: OtherStream) -> Iterator[Advice]:
    for query in facts.queries:
        for checkpoint in other.checkpoints:
            if _overlap(query.checkpoint, checkpoint):
                whose = f"stream {other.name}"
                yield _clash(rule, query.name, whose, query.checkpoint, checkpoint)
    if place(other.folder) == place(facts.deployment.checkpoint):
        yield risk(
            rule,
            RiskLevel.MEDIUM,
            f"Stream {other.name} keeps its checkpoints in the same folder; queries of one name "
            "would write one checkpoint.",
            evidence=other.folder,
            remedy="Give each stream a checkpoint folder of its own.",
        )


def _clash(rule: str, query: str, whose: str, mine: str, theirs: str) -> Advice:
    return risk(
        rule,
        RiskLevel.HIGH,
        f"{whose} uses the same checkpoint. Two queries on one checkpoint deliver batches "
        "twice until one of them dies.",
        query=query,
        evidence=mine if place(mine) == place(theirs) else f"{mine} and {theirs}",
        remedy="Stop one of them for good, and give it a checkpoint of its own.",
    )


def _checkpoints(facts: Facts) -> Iterator[tuple[str | None, str]]:
    """Yield each query's checkpoint; before a driver has told any, the deployment's folder."""
    for query in facts.queries:
        yield query.name, query.checkpoint
    if not facts.queries:
        yield None, facts.deployment.checkpoint
