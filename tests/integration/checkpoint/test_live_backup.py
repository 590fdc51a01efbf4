"""Backups of queries that run, restored and gone on from; ``live_backups`` does it at length."""

from __future__ import annotations

from pathlib import Path

from airflow_streaming.checkpoints.vault.store import open_backup_store
from tests.patience import until
from tests.system.live_backups import Attempt, go_on
from tests.system.live_copies import PinnedBackup, newest_commit
from tests.system.live_session import Session, order_of, queries, write_input

BATCHES = 8


def test_a_query_goes_on_from_a_backup_that_was_taken_while_it_ran(
    spark_4_3: Path, tmp_path: Path
) -> None:
    write_input(tmp_path / "input", BATCHES)
    way = PinnedBackup(open_backup_store(str(tmp_path / "store"), create=True))
    with Session(spark_4_3, tmp_path) as session:
        running = list(queries(["agg", "files"], ["hdfs", "format2"], session.version, tmp_path))
        session.order(do="start", queries=[order_of(query, files_a_batch=1) for query in running])
        session.answer()
        tried = []
        for number, query in enumerate(running):
            until(lambda q=query: (newest_commit(q.checkpoint) or 0) > 1, "A second commit")
            tried.append(Attempt(way="pinned", query=query, name=way.copy(query, number)))
        assert session.answer() == {"ended": True}
        judged = [go_on(attempt, way, session, tmp_path) for attempt in tried]
    assert [(one.query.name, one.verdict, one.why) for one in judged] == [
        ("agg-hdfs", "exact", ""),
        ("agg-format2", "exact", ""),
        ("files-hdfs", "exact", ""),
    ]
