"""
Lists of a stream for its page: its deployments, its backups and its timeline.

Every text is cut to a length. Secrets in quoted texts are marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from airflow_streaming.checkpoints.backup.records import Said, UnreadableVerification, Verification
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.plugins.page_values import cut, quoted, told


def deployments_view(home: StreamHome, most: int = 12) -> list[dict[str, Any]]:
    """Return the newest deployments of a lane, the newest first, each with its differences."""
    numbers = home.deployment_numbers()[-most - 1 :]
    found = [home.deployment(number) for number in numbers]
    rows = []
    for before, one in zip([None, *found], found, strict=False):
        rows.append(
            {
                "number": one.number,
                "at": told(one.created_at),
                "by": cut(one.created_by, 200),
                "spark": one.spark_version,
                "runtime": cut(one.runtime, 100),
                "application": quoted(one.application, 400),
                "sha256": one.application_sha256[:12],
                "checkpoint": quoted(one.checkpoint, 400),
                "output": quoted(one.output, 400),
                "changes": [] if before is None else [*_differences(before, one)],
            }
        )
    return rows[-most:][::-1]


def _differences(before: Deployment, after: Deployment) -> Iterator[dict[str, Any]]:
    for name in before.differences(after):
        old, new = getattr(before, name), getattr(after, name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            for key in sorted(old.keys() | new.keys()):
                if old.get(key) != new.get(key):
                    yield {
                        "what": cut(f"{name} {key}", 200),
                        "from": quoted(old.get(key), 300),
                        "to": quoted(new.get(key), 300),
                    }
            continue
        texts = [" ".join(v) if isinstance(v, tuple) else str(v) for v in (old, new)]
        yield {"what": name, "from": quoted(texts[0], 300), "to": quoted(texts[1], 300)}


def backup_view(store: BackupStore, stream: str, backup_id: str) -> dict[str, Any]:
    """Return one backup, with what its newest verification found."""
    try:
        backup = store.backup(backup_id, stream)
        checks = store.verifications(backup_id, stream)
    except StreamingError as err:
        return {"id": backup_id, "problem": quoted(str(err), 400), "verified": False}
    return {
        "id": backup_id,
        "at": told(backup.finished_at),
        "origin": backup.origin.value,
        "by": cut(backup.by, 200),
        "note": quoted(backup.note, 300),
        "files": backup.files,
        "size": backup.size,
        "added": backup.added_size,
        "deployment": backup.deployment,
        "batches": {cut(q.folder, 100): q.batch for q in backup.queries},
        **_verification(checks[-1] if checks else None),
    }


def _verification(checked: Said | None) -> dict[str, Any]:
    match checked:
        case Verification():
            return {
                "verified": checked.holds,
                "level": checked.level.value,
                "verified_at": told(checked.verified_at),
                "problem": quoted(" ".join(checked.problems), 400),
            }
        case UnreadableVerification():
            problem = cut(checked.problem, 400)
            return {"verified": False, "level": "", "verified_at": None, "problem": problem}
        case None:
            return {"verified": False, "level": "", "verified_at": None, "problem": ""}


def timeline_view(
    home: StreamHome, *, most: int, since: datetime | None = None
) -> list[dict[str, Any]]:
    """Return what happened to a lane, the newest first: its events and the alerts that were sent."""
    rows = [
        {
            "at": told(event.at),
            "kind": event.event.value,
            "text": quoted(event.message, 1_000),
            "by": cut(event.by, 200),
            "epoch": event.epoch,
            "facts": {cut(k, 60): quoted(v, 300) for k, v in [*event.facts.items()][:20]},
        }
        for event in home.events(most, since)
    ]
    rows += [
        {
            "at": told(alert.at),
            "kind": f"alert_{alert.alert.value}",
            "text": quoted(alert.reason, 1_000),
            "by": cut(alert.by, 200),
            "epoch": alert.epoch,
            "remedy": quoted(alert.remedy, 600),
            "facts": {"rule": cut(alert.rule, 100), "query": cut(alert.query, 100)},
        }
        for alert in home.alerts(min(most, 100))
        if since is None or alert.at >= since
    ]
    return sorted(rows, key=lambda row: str(row["at"]), reverse=True)[:most]


def lanes_of(home: StreamHome) -> list[str]:
    """Return the lanes of a stream that exist, the given one first."""
    other = home.beside(other_lane(home.name))
    return [home.name, *([other.name] if other.deployment_numbers() else [])]
