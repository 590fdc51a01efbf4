"""Tells people when a stream has no backup as new as it should have, and when it has one again."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from airflow_streaming.core.alerts.alert import AlertKind
from airflow_streaming.core.alerts.backup_age import about_age
from airflow_streaming.core.checkpoint.age import judge_age
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.operators._acting import who
from airflow_streaming.operators._alerts import Alerts
from airflow_streaming.operators._delivery import Notifiers

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    from airflow_streaming.checkpoint.store import BackupStore
    from airflow_streaming.home.home import StreamHome

log: Final = logging.getLogger(__name__)


class BackupAge:
    """
    Looks at the age of a stream's newest good backup, and tells.

    Nothing here raises: a backup must not fail because somebody could not be told of the last one.

    :param records: Where it is written down what was told: the stream's home, or the same records
        in the backup store for a stream that is not ours.
    :param max_age: The longest that may lie between now and the moment the newest backup holds.
    :param verified: Whether only a verified backup is a good one.
    """

    def __init__(
        self,
        records: StreamHome,
        operator: BaseOperator,
        context: Context,
        *,
        max_age: timedelta,
        verified: bool,
        on_late: Notifiers,
        on_recovered: Notifiers,
    ) -> None:
        self._records, self._operator, self._context = records, operator, context
        self._max_age, self._verified = max_age, verified
        self._notifiers = {AlertKind.UNHEALTHY: on_late, AlertKind.RECOVERED: on_recovered}

    @contextlib.contextmanager
    def told_after(self, store: BackupStore) -> Iterator[None]:
        """Tell when the block is done, failed or skipped; not when the task is being killed."""
        try:
            yield
        except Exception:
            self.tell(store)
            raise
        self.tell(store)

    def tell(self, store: BackupStore) -> None:
        """Judge the backups in the store, and tell what has to be told."""
        try:
            self._tell(store)
        except StreamingError as err:
            log.warning("The age of the newest backup could not be told: %s", err)

    def _tell(self, store: BackupStore) -> None:
        stream, now = self._records.name, datetime.now(UTC)
        backups = store.backups(stream)
        said = [word for one in backups for word in store.verifications(one.id, stream)]
        verdict = judge_age(backups, said, max_age=self._max_age, now=now, verified=self._verified)
        (log.warning if verdict.is_late else log.info)("%s", verdict.reason)
        epoch = self._records.newest_epoch()
        with self._alerts() as alerts:
            alerts.tell(
                *about_age(
                    verdict,
                    stream=stream,
                    epoch=0 if epoch is None else epoch.number,
                    log=self._records.alerts(),
                    now=now,
                )
            )

    def _alerts(self) -> Alerts:
        return Alerts(
            self._records,
            self._operator,
            notifiers=self._notifiers,
            context=self._context,
            by=who(self._context),
            of_backups=True,
        )
