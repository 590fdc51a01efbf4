"""
The place that a writer writes, resolved where only a driver can resolve it.

Two paths can be one folder through a symbolic link or a default file system, and a Kafka sink without the
option ``topic`` takes the topic from a column. A column with a constant is as good as the option, and a column
with a few literals names all topics that the query can write.
"""

from __future__ import annotations

import posixpath
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.output_places.column_texts import texts_of
from airflow_streaming.driver.plan.nodes import read_tree
from airflow_streaming.model.spark.plan import KAFKA, SinkPlan
from airflow_streaming.model.uris import is_local, local_path, scheme_of

_TOPIC: Final = "topic"
_DEFAULT_FS: Final = "fs.defaultFS"


def default_fs(context: Any) -> str:
    """Return the URI of the file system of a path without a scheme."""
    return str(context._jsc.hadoopConfiguration().get(_DEFAULT_FS) or "file:///")


def resolved(sink: SinkPlan, frame: Any, usual_fs: str) -> SinkPlan:
    """
    Return a sink with the topics that its column can have, or with the real path of its files.

    :param frame: The Java ``Dataset`` that is written.
    :param usual_fs: See ``default_fs``.
    """
    if sink.sink == KAFKA and not sink.target:
        tree = read_tree(frame.queryExecution().analyzed().toJSON())
        topics = texts_of(tree, _TOPIC)
        return replace(sink, target=topics[0] if len(topics) == 1 else "", topics=topics)
    return replace(sink, real_path=_real_path(sink.target, usual_fs))


def _real_path(target: str, usual_fs: str) -> str:
    """Return where an absolute path leads; empty where its spelling says it all."""
    if not target.startswith("/") and not scheme_of(target):
        return ""
    if not scheme_of(target) and not is_local(usual_fs):
        return f"{usual_fs.rstrip('/')}{target}"
    if not is_local(target):
        return ""
    plain = posixpath.normpath(local_path(target))
    real = str(Path(plain).resolve())
    return "" if real == plain else real
