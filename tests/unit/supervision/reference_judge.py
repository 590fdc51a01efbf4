"""What the judges have to say, as one chain of questions in the order of docs/health.md."""

from __future__ import annotations

from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import Observation
from airflow_streaming.model.status import Status


def judge_by_the_book(seen: Observation, rules: HealthRules) -> tuple[str, str | None]:
    """Return the state of a verdict and what it asks for, from the table in docs/health.md."""
    process, silent = seen.process.state.value, seen.silent_for
    written = [seen.launch, seen.status, seen.exit, seen.death]
    age = abs((seen.now - seen.epoch.created_at).total_seconds())
    if not any(written) and age < 30:
        return "starting", None
    heard_out = process == "unseen" and seen.exit is not None and silent.total_seconds() >= 60
    if seen.death is not None or process == "gone" or heard_out:
        if seen.exit is None:
            return "dead", None
        ends = {"completed": "completed", "failed": "failed"}
        return ends.get(seen.exit.outcome.value, "stopped"), None
    if process == "suspended" and silent >= rules.suspended_after:
        return "hung", "restart"
    patience = rules.startup_timeout if seen.status is None else rules.hang_after
    if silent >= patience:
        if process == "unseen":
            return "unreachable", "alert"
        at_work = (seen.cpu_in_silence or 0.0) / silent.total_seconds() > 0.005
        if seen.flat_for is not None:
            at_work = seen.flat_for < rules.hang_after
        is_busy = at_work and seen.exit is None and silent < rules.busy_hang_after
        return ("slow", "alert") if is_busy else ("hung", "restart")
    if seen.exit is not None or (seen.status is not None and seen.status.state == "stopping"):
        return "stopping", None
    if seen.status is None:
        return "starting", None
    return _of_queries(seen, seen.status, rules)


def _of_queries(seen: Observation, status: Status, rules: HealthRules) -> tuple[str, str | None]:
    trouble = [("degraded", f.severity.value) for f in seen.findings if f.state == "firing"]
    for query in status.queries:
        if not query.active:
            trouble += [("degraded", "alert")] if query.error is not None else []
            continue
        durations = sorted(d / 1000 for d in query.recent_durations_ms)
        half = len(durations) // 2
        usual = (durations[half] + durations[-half - 1]) / 2 if durations else 0.0
        window = max(
            rules.stall_after.total_seconds(),
            3 * (query.processing_interval_s or 0),
            rules.stall_factor * usual,
            3 * max(durations, default=0.0),
        )
        if query.processing and (query.batch_for_s or 0) >= window:
            stands_still = (query.quiet_for_s or 0) >= window
            trouble.append(("stalled", rules.stalled.value) if stands_still else ("slow", "alert"))
        waits = query.committed_ago_s if query.ready_for_s is None else query.ready_for_s
        if not query.processing and query.data_available and (waits or 0) >= window:
            trouble.append(("stalled", rules.stalled.value))
    for severity in ("stop", "restart", "alert"):
        for state in ("stalled", "degraded", "slow"):
            if (state, severity) in trouble:
                return state, severity
    active = [query for query in status.queries if query.active]
    waits_first = status.queries and all(
        q.active and q.message[:7] == "Waiting" and not q.data_available for q in status.queries
    )
    if status.first_progress_at is None and not waits_first:
        return "starting", None
    busy = [query for query in active if query.processing or query.data_available]
    return ("healthy" if busy else "idle"), None
