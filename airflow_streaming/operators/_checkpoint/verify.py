"""The operator that verifies a backup."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.core.checkpoint.backup import Backup, Level, Verification
from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators._acting import who
from airflow_streaming.operators._checkpoint.common import BACKUP_XCOM_KEY, CheckpointTask, positive

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.checkpoint.store import BackupStore
    from airflow_streaming.checkpoint.verify import Drill
    from airflow_streaming.operators._narrating import Narrator

MOST_PROBLEMS: Final = 5
"""Problems quoted in an error; the store has all."""


class CheckpointVerifyOperator(CheckpointTask):
    """
    Verify a backup; the task fails when it does not hold.

    :param stream: The stream's name. (templated)
    :param home: The home's URI. (templated)
    :param store: The backup store's URI; ``<home>/_backups`` when not given. (templated)
    :param backup_id: Which backup; the stream's newest when not given. (templated)
    :param level: ``quick`` looks at names and sizes, ``full`` reads every byte, ``drill`` has a
        real Spark open the state and run a batch on a scratch copy as well. (templated)
    :param runtime: For a drill, the name of a Spark installation in ``[streaming] runtimes``; the
        one of the version that wrote the backup when not given. (templated)
    :param script: For a drill, the script of a stream that is not ours; a stream of ours is drilled
        with the script of the backup's own deployment. Without any, only the state is opened.
        (templated)
    :param drill_timeout: How long Spark may take for the drill.
    """

    template_fields: Sequence[str] = (
        *CheckpointTask.template_fields,
        "backup_id",
        "level",
        "runtime",
        "script",
    )

    def __init__(
        self,
        *,
        backup_id: str | None = None,
        level: str = Level.FULL,
        runtime: str | None = None,
        script: str | None = None,
        drill_timeout: timedelta = timedelta(minutes=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.backup_id = backup_id
        self.level = level
        self.runtime = runtime
        self.script = script
        self.drill_timeout = drill_timeout
        positive(drill_timeout, "drill_timeout")
        if "{{" not in level:
            level_of(level)

    def execute(self, context: Context) -> str:
        with self.at_work() as narrator:
            store = self.open_store()
            backup = self.find(store, self.backup_id)
            found = self.verify(store, backup, level_of(self.level), narrator, by=who(context))
        context["ti"].xcom_push(key=BACKUP_XCOM_KEY, value=found.to_dict())
        check_that_it_holds(backup, found)
        return backup.id

    def verify(
        self, store: BackupStore, backup: Backup, level: Level, narrator: Narrator, *, by: str
    ) -> Verification:
        """Verify one backup and say in the log what was found."""
        from airflow_streaming.checkpoint.verify import verify  # not at dag parse

        found = verify(
            store,
            backup.id,
            level,
            by=by,
            now=datetime.now(UTC),
            stream=backup.stream,
            drill=self._drill(backup, narrator) if level is Level.DRILL else None,
            progress=narrator.read,
        )
        for name, fact in found.facts.items():
            self.log.info("%s: %s", name, fact)
        self.log.info("Backup %s, %s: %d problems.", backup.id, level, len(found.problems))
        return found

    def _drill(self, backup: Backup, narrator: Narrator) -> Drill:
        from airflow_streaming.checkpoint.drill import drill  # not at dag parse
        from airflow_streaming.checkpoint.drill_program import deployed_program, read_program
        from airflow_streaming.checkpoint.drill_runtime import choose_runtime
        from airflow_streaming.settings import read_settings

        program = None
        if self.script:
            program = read_program(self.script)
        elif self.home and backup.deployment is not None:
            program = deployed_program(self.open_home(), backup.stream, backup.deployment)
        return partial(
            drill,
            runtime=choose_runtime(read_settings().runtimes, backup, self.runtime or None),
            program=program,
            timeout=self.drill_timeout.total_seconds(),
            progress=narrator,
        )


def level_of(text: str) -> Level:
    """
    Return a level by its name.

    :raises SpecError: there is none of that name.
    """
    try:
        return Level(text)
    except ValueError as err:
        raise SpecError(f"level is {text!r}; give {', '.join(Level)}.") from err


def check_that_it_holds(backup: Backup, found: Verification) -> None:
    """
    Do nothing for a backup that was found whole.

    :raises AirflowFailException: it was not; with the first problems.
    """
    if not found.holds:
        raise AirflowFailException(
            f"Backup {backup.id} of stream {backup.stream!r} does not hold: "
            f"{' '.join(found.problems[:MOST_PROBLEMS])} Nothing restores from it; take a new one, "
            "and look for what changed the store."
        )
