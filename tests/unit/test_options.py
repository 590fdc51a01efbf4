"""What an author writes into options is checked where it is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.options import (
    BackupOptions,
    Connections,
    CutoverOptions,
    RehearsalOptions,
    RestartOptions,
    UpgradeOptions,
)
from airflow_streaming.spec import ReadyTerms, SoakTerms

WRONG: list[tuple[Callable[..., Any], str, Any]] = [
    (RehearsalOptions, "batches", nan),
    (RehearsalOptions, "batches", -1),
    (RehearsalOptions, "batches", True),
    (RehearsalOptions, "time_limit", timedelta(-1)),
    (RehearsalOptions, "backup_id", 7),
    (UpgradeOptions, "soak", 5),
    (UpgradeOptions, "dry_run", object()),
    (UpgradeOptions, "accept_replay", "{{ params.accept }}"),
    (UpgradeOptions, "rehearsal", "always"),
    (RestartOptions, "approval_timeout", 60),
    (CutoverOptions, "retain_blue", 3),
    (CutoverOptions, "ready", SoakTerms()),
    (CutoverOptions, "keeps_blue_running", None),
    (Connections, "conn_id", None),
    (BackupOptions, "max_age", 5),
]


@pytest.mark.parametrize(("kind", "name", "value"), WRONG)
def test_a_wrong_field_is_refused_by_its_name(
    kind: Callable[..., Any], name: str, value: Any
) -> None:
    with pytest.raises(SpecError, match=rf"\.{name} is "):
        kind(**{name: value})


@pytest.mark.parametrize("terms", [{"batches": "x"}, {"backlog_growth": inf}, {"at_most": 5}])
def test_terms_within_options_are_checked_too(terms: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"SoakTerms\."):
        UpgradeOptions(soak=SoakTerms(**terms))


def test_templates_whole_numbers_and_nothing_are_taken_where_they_are_declared() -> None:
    CutoverOptions(dry_run="{{ params.dry_run }}", need_approval=None, ready=ReadyTerms())
    UpgradeOptions(soak=SoakTerms(backlog_growth=2), approval_timeout=None)
    Connections(conn_id="{{ var.value.spark }}", home_conn_id=None)
