"""
A stream for the page, read from its records: the row of the fleet and the full view.

Every text is sent as it is in the home, cut to a length; the page inserts it as text and never as
HTML.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Final

from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.history import HistoryReader, PartCache, sparkline
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.selector import MOST_LABELS
from airflow_streaming.model.codec import encode
from airflow_streaming.model.durations import age_of
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.names import color_of
from airflow_streaming.model.observation import Observation, Process
from airflow_streaming.model.records.control import ChangeInProgress, StreamRemoval
from airflow_streaming.model.records.cutover import CutoverStanding
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.records.upgrade import OpenUpgrade
from airflow_streaming.model.records.upgrade_table import Stage
from airflow_streaming.model.status import QueryStatus, Status
from airflow_streaming.plugins.access.drivers import in_time
from airflow_streaming.plugins.changes import acts_of, open_upgrade_waits_for
from airflow_streaming.plugins.lists import backup_view
from airflow_streaming.plugins.page_values import cut, quoted, told, tried
from airflow_streaming.reports.streams import loss_text, size_text
from airflow_streaming.services.fleet_rows import FleetRow
from airflow_streaming.services.fleet_writer import row_of
from airflow_streaming.services.freshness import recorded_freshness
from airflow_streaming.services.status_reader import failing, read_status
from airflow_streaming.services.stream_figures import UNITS
from airflow_streaming.services.streams import Probe, look_once
from airflow_streaming.supervision.epoch_figures import Figures
from airflow_streaming.supervision.rules import sentences
from airflow_streaming.supervision.standby import summary
from airflow_streaming.supervision.standby_observer import view_standby
from airflow_streaming.supervision.stream_status import Level, StreamStatus

SELDOM: Final = 45.0
"""Seconds between two looks at what changes rarely: backups, events, sparklines."""
_WAITS_FOR_PERSON: Final = frozenset(
    {CutoverState.READY, CutoverState.HELD, Stage.JUDGED, Stage.LEFT}
)

_CHANGES: Final = {OpenUpgrade: "upgrade", StreamRemoval: "removal"}


@dataclass(slots=True)
class StreamWatch:
    """
    Looks at one lane of a stream repeatedly.

    :param home: Its records, with a cache.
    :param parts: Cached parts of histories, shared by all streams.
    :param probe: Looks at the processes of its drivers and standbys.
    :param open_backups: Opens the store of its backups; ``None`` when the page may not open it.
    :param live: Returns the live lane of the stream; default: it has one lane.
    :param clock: Monotonic seconds.
    """

    home: StreamHome
    parts: PartCache
    probe: Probe
    open_backups: Callable[[], BackupStore] | None = None
    live: Callable[[], str] | None = None
    clock: Callable[[], float] = time.monotonic
    _seldom: dict[str, Any] = field(default_factory=dict)
    _seldom_at: float = float("-inf")
    _figures: tuple[tuple[int, HealthRules], Figures] | None = None

    @property
    def history(self) -> HistoryReader:
        return HistoryReader(self.home, self.parts)

    def row(self, now: datetime) -> dict[str, Any]:
        look = self._look(now, is_close=False)
        return {**self._head(look), **self._rarely(look)}

    def whole(self, now: datetime) -> dict[str, Any]:
        """Return what its own page shows of it, without history and timeline."""
        with in_time():
            return self._whole(now)

    def _whole(self, now: datetime) -> dict[str, Any]:
        look = self._look(now, is_close=True)
        status = look.seen.status if look.seen else None
        return {
            **self._head(look),
            **self._rarely(look),
            "desired": _record(look.desired),
            "circuit": _record(look.circuit),
            "queries": [query_view(query) for query in status.queries] if status else [],
            "rules": _rules(look),
            "incidents": [_record(alert) for alert in look.incidents],
            "failure": _failure(self.home, look),
            "failures_in_a_row": look.failures_in_a_row,
            "driver": _driver(look),
            "standby": cut(self._standby(look), 200),
            "freshness": tried(self._freshness),
            "size": tried(self._size),
            "data_loss": "" if look.loss is None else cut(loss_text(look.loss, look.now), 600),
            "dag_differs": cut(look.dag_differs, 600),
            "acts": acts_of(self.home, look),
            "change": self._change(look),
        }

    def _size(self) -> dict[str, Any] | None:
        newest = self.home.newest_size()
        if newest is None:
            return None
        end = self.home.size_end(newest.number)
        return {
            "recommended": newest.is_recommended_only,
            "result": "" if end is None else end.result.value,
            "text": cut(size_text(newest, end), 600),
            "at": told(newest.at),
        }

    def _change(self, look: StreamStatus) -> dict[str, Any] | None:
        """Return the open change, with the wait of an upgrade and the failures of a green lane."""
        shown, change = change_view(look.change, look.now), look.change
        if shown is not None and isinstance(change, OpenUpgrade):
            record = self.home.change(change.change)
            return {**shown, "waits_for": tried(lambda: open_upgrade_waits_for(self.home, record))}
        if shown is None or not isinstance(change, CutoverStanding) or not change.green:
            return shown
        lane = self.home.beside(change.green)
        return {**shown, "failing": quoted(tried(lambda: failing(lane)), 800)}

    def _look(self, now: datetime, *, is_close: bool) -> StreamStatus:
        def look(epoch: Epoch, rules: HealthRules) -> Observation:
            return self._observe(epoch, rules, now, is_close=is_close)

        is_live = self.live is None or self.live() == self.home.name
        return read_status(self.home, look, now=lambda: now, is_live=is_live)

    def _observe(
        self, epoch: Epoch, rules: HealthRules, now: datetime, *, is_close: bool
    ) -> Observation:
        home, number = self.home, epoch.number
        probe = self.probe if is_close else _not_probed
        seen = look_once(home, epoch, probe, lambda: now)
        status = seen.status
        if not is_close or status is None or not rules.rules:
            return seen
        if self._figures is None or self._figures[0] != (number, rules):
            self._figures = ((number, rules), Figures(home, number, rules))
        return replace(seen, findings=self._figures[1].findings(status, self.clock()))

    def _standby(self, look: StreamStatus) -> str:
        def silence(_: int, status: Status | None) -> timedelta:
            return age_of(status.at, look.now) if status else timedelta(0)

        live = look.seen.epoch if look.seen is not None else None
        standbys = self.home.standbys()
        view = partial(view_standby, standbys, self.probe, live, silence)
        return tried(lambda: summary(view(), look.now)) or ""

    def _freshness(self) -> dict[str, Any] | None:
        objective = self.home.supervision().freshness
        found = None if objective is None else recorded_freshness(self.home, objective)
        if objective is None or found is None:
            return None
        figures = found.figures
        return {
            "objective": objective.objective,
            "within_s": objective.complete_within / timedelta(seconds=1),
            "query": objective.query,
            "share": figures.share,
            "budget_left": figures.budget_left,
            "is_late": figures.is_late,
            "at": told(figures.at),
            "fires": [burn.alert.name for burn in figures.burns if burn.fires],
        }

    def _head(self, look: StreamStatus) -> dict[str, Any]:
        row = row_of(look, labels=self.home.supervision().labels)
        return head_of(row, change_view(look.change, look.now))

    def _rarely(self, look: StreamStatus) -> dict[str, Any]:
        if self.clock() - self._seldom_at >= SELDOM:
            buckets = tried(lambda: self.history.recent(look.now.timestamp())) or ()
            self._seldom = {
                "spark_in": sparkline(buckets, "input_rate"),
                "spark_out": sparkline(buckets, "processing_rate"),
                "backup": self._newest_backup(),
                "event": self._newest_event(),
            }
            self._seldom_at = self.clock()
        return self._seldom

    def _newest_backup(self) -> dict[str, Any] | None:
        if self.open_backups is None:
            return None
        with suppress(StreamingError, OSError):
            store = self.open_backups()
            ids = store.ids(self.home.name)
            if ids:
                found = backup_view(store, self.home.name, ids[-1])
                return {name: found.get(name) for name in ("at", "verified", "problem")}
        return None

    def backups(self, most: int = 20) -> list[dict[str, Any]]:
        """
        Return the newest backups, the newest first.

        :raises CheckpointError: the store is missing, or of another release.
        :raises StreamingError: the store cannot be read.
        """
        if self.open_backups is None:
            return []
        store = self.open_backups()
        ids = store.ids(self.home.name)[-most:]
        return [backup_view(store, self.home.name, one) for one in reversed(ids)]

    def _newest_event(self) -> dict[str, Any] | None:
        events = tried(lambda: self.home.events(1)) or []
        if not events:
            return None
        event = events[-1]
        return {"at": told(event.at), "kind": event.event.value, "text": quoted(event.message, 200)}


def head_of(row: FleetRow, change: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the row of the fleet; a row that a trigger has left looks like the row of a look."""
    return {
        "lane": row.lane,
        "color": color_of(row.lane).value,
        "state": row.word,
        "level": row.level.value,
        "rank": row.level.rank,
        "reason": quoted(row.reason, 600),
        "remedy": quoted(row.remedy, 600),
        "since": told(row.since),
        "deployment": row.deployment,
        "spark": cut(row.spark, 100),
        "launcher": cut(row.launcher, 100),
        "epoch": row.epoch,
        "seen_at": told(row.heartbeat_at),
        "queries_total": row.queries,
        "input_rate": _short(row.input_rate),
        "processing_rate": _short(row.processing_rate),
        "batch_ms": row.batch_ms,
        "backlog": {unit: row.backlog[unit] for unit in UNITS if unit in row.backlog},
        "watermark_delay_s": _short(row.watermark_delay_s),
        "state_rows": row.state_rows,
        "restarts_24h": row.restarts_24h,
        "labels": _labels(row.labels),
        "change": change,
    }


def _labels(labels: Mapping[str, str]) -> list[str]:
    """Return labels as a selector names them; a forged record may have any number of any length."""
    shown = islice(sorted(labels.items()), MOST_LABELS)
    return [cut(f"{key}={value}", 130) for key, value in shown]


def _not_probed(*_: object) -> Process:
    return Process.unseen("only its heartbeat is read here")


def query_view(query: QueryStatus) -> dict[str, Any]:
    """Return one query as it is now."""
    latest = query.progress
    return {
        "name": query.name,
        "id": query.id,
        "active": query.active,
        "processing": query.processing,
        "data_available": query.data_available,
        "message": quoted(query.message, 400),
        "batches": query.batches,
        "batch": query.planned_batch if query.processing else (latest.batch_id if latest else None),
        "batch_for_s": query.batch_for_s,
        "quiet_for_s": query.quiet_for_s,
        "active_tasks": query.active_tasks,
        "interval_s": query.processing_interval_s or query.checkpoint_interval_s,
        "error": quoted(query.error),
        "watermark": cut(latest.watermark, 60) if latest else None,
        "watermark_delay_s": _short(latest.watermark_delay_s) if latest else None,
        "input_rate": latest.input_rows_per_second if latest else None,
        "processing_rate": latest.processed_rows_per_second if latest else None,
        "duration_ms": latest.duration_ms if latest else None,
        "sources": [
            {"name": cut(source.source, 200), "end": cut(source.end_offset, 300)}
            for source in (latest.sources if latest else ())
        ],
    }


def _rules(look: StreamStatus) -> list[dict[str, Any]]:
    findings = look.seen.findings if look.seen else ()
    rows = []
    for rule in look.rules.rules:
        mine = [one for one in findings if one.rule == rule.name]
        shared = {
            "rule": cut(rule.name, 100),
            "metric": rule.metric.value,
            "comparison": rule.comparison.value,
            "bound": rule.bound,
            "wants": sentences.threshold(rule),
            "severity": rule.severity.value,
            "column": rule.column,
        }
        rows += [
            {
                **shared,
                "query": cut(one.query, 100),
                "source": cut(one.source, 200),
                "state": one.state.value,
                "figure": one.figure,
                "reason": quoted(one.reason, 400),
                "since": told(one.since),
            }
            for one in mine
        ] or [{**shared, "query": "", "source": "", "state": "unknown", "figure": None}]
    return rows


def _failure(home: StreamHome, look: StreamStatus) -> dict[str, Any] | None:
    """Return the newest failure: of this epoch, or of the one before it."""
    seen = look.seen
    if seen is None:
        return None
    for number in (seen.epoch.number, seen.epoch.number - 1):
        found = tried(partial(home.exit, number)) if number > 0 else None
        if found is None or found.failure_kind is None:
            continue
        decision = tried(partial(home.restart_decision, number))
        return {
            "epoch": number,
            "at": told(found.ended_at),
            "kind": found.failure_kind.value,
            "class": cut(found.exception_class, 200),
            "conditions": [cut(one, 100) for one in found.conditions[:10]],
            "query": cut(found.query, 100),
            "batch": found.batch_id,
            "text": quoted(found.reason),
            "decision": quoted(decision.reason, 600) if decision else "",
            "remedy": (decision.remedy if decision else "")
            or (found.failure_kind.remedy if found.failure_kind else ""),
        }
    return None


def _driver(look: StreamStatus) -> dict[str, Any] | None:
    if look.seen is None:
        return None
    seen, status = look.seen, look.seen.status
    return {
        "epoch": seen.epoch.number,
        "cause": seen.epoch.cause.value,
        "reason": quoted(seen.epoch.reason, 400),
        "by": cut(seen.epoch.by, 200),
        "began": told(seen.epoch.created_at),
        "host": cut(seen.epoch.host.name, 200),
        "name": cut(seen.launch.driver, 200) if seen.launch else "",
        "process": seen.process.state.value,
        "detail": cut(seen.process.detail, 300),
        "application": cut(status.application_id, 200) if status else "",
        "ui": cut(status.ui_url, 300) if status else "",
    }


def change_view(change: ChangeInProgress | None, now: datetime) -> dict[str, Any] | None:
    """Return the change that is open, in short."""
    if change is None:
        return None
    at: Stage | CutoverState | None = None
    lasts = timedelta(0)
    match change:
        case OpenUpgrade():
            at, lasts = change.stage, change.soaks_for
        case CutoverStanding():
            at, lasts = change.state, change.deadline
    is_overdue = change.is_overdue(now)
    # A change is overdue some time after its state needed to end: its task may only be slow.
    lasts = lasts or (change.patience if is_overdue else lasts)
    return {
        "kind": _CHANGES.get(type(change), "cutover"),
        "state": at.value if at is not None else "",
        "text": quoted(str(change), 300),
        "since": told(change.since),
        "until": told(change.since + lasts) if lasts else None,
        "waits": at in _WAITS_FOR_PERSON,
        "overdue": is_overdue,
    }


def _record(record: Any) -> dict[str, Any] | None:
    if record is None:
        return None
    found: dict[str, Any] = encode(record)
    return {k: quoted(v, 1_000) if isinstance(v, str) else v for k, v in found.items()}


def _short(value: float | None) -> float | None:
    # More digits are not shown, and hundreds of rows are sent.
    return None if value is None else float(f"{value:.5g}")


def unreadable(kept_stream: str, reason: str, *, level: str = "bad") -> dict[str, Any]:
    """Return the row of an unreadable stream."""
    return {
        "lane": kept_stream,
        "state": "unreadable",
        "level": level,
        "rank": Level(level).rank,
        "reason": quoted(reason, 600),
        "remedy": "",
        "since": None,
    }


def now_utc() -> datetime:
    """Return the time."""
    return datetime.now(UTC)
