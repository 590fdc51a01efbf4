"""The operator that removes old backups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_streaming.core.checkpoint.retention import RetentionPolicy
from airflow_streaming.operators._acting import who
from airflow_streaming.operators._checkpoint.common import CheckpointTask, truth

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.checkpoint.retention import Retained
    from airflow_streaming.home.home import Home


class CheckpointRetentionOperator(CheckpointTask):
    """
    Remove backups that a policy does not keep, and what no backup needs any more.

    The newest verified backup is never removed, and neither is one that was taken for a change of
    the stream before that change has ended. Objects that nothing refers to are listed by one run
    and deleted by a later one, an hour or more after it.

    :param stream: The stream's name; every stream of the store when not given. (templated)
    :param home: The home's URI. (templated)
    :param store: The backup store's URI; ``<home>/_backups`` when not given. (templated)
    :param policy: What is kept: a ``RetentionPolicy``, or its fields as a mapping or a JSON text
        with ``keep_for`` in days. (templated)
    :param dry_run: Plan only; the log says what would stay, with every reason. (templated)
    """

    template_fields: Sequence[str] = (*CheckpointTask.template_fields, "policy", "is_dry_run")

    def __init__(
        self,
        *,
        policy: RetentionPolicy | Mapping[str, Any] | str,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.policy = policy
        self.is_dry_run = dry_run
        if isinstance(policy, Mapping) and "{{" not in str(policy):
            RetentionPolicy.from_dict(policy)

    def execute(self, context: Context) -> dict[str, Any]:
        with self.at_work() as narrator:
            from airflow_streaming.checkpoint.retention import apply_retention  # not at dag parse

            store, policy = self.open_store(), policy_of(self.policy)
            is_dry_run = truth(self.is_dry_run, "dry_run")
            done = {
                stream: apply_retention(
                    *(store, stream, policy),
                    by=who(context),
                    dry_run=is_dry_run,
                    progress=narrator,
                    homes=self._open_home_of_change,
                )
                for stream in ([self.stream_name()] if self.stream else store.streams())
            }
        for stream, retained in done.items():
            self._tell(stream, retained)
        return {stream: _summary(retained) for stream, retained in done.items()}

    def _open_home_of_change(self, uri: str) -> Home:
        from airflow_streaming.hooks.home import StreamHomeHook  # not at dag parse

        return StreamHomeHook(uri, self.home_conn_id, looks_only=True).get_conn()

    def _tell(self, stream: str, retained: Retained) -> None:
        for line in retained.plan.lines():
            self.log.info("%s: %s", stream, line)
        for problem in retained.problems:
            self.log.warning("%s: %s", stream, problem)
        self.log.info(
            "%s: %d backups removed, %d left because they are read now; %d objects deleted "
            "(%d bytes), %d wait for a later run.",
            *(stream, len(retained.removed), len(retained.held), retained.deleted),
            *(retained.deleted_size, retained.waiting),
        )


def policy_of(given: RetentionPolicy | Mapping[str, Any] | str) -> RetentionPolicy:
    """
    Return the policy that was given in one of three forms.

    :raises SpecError: it is none.
    """
    if isinstance(given, RetentionPolicy):
        return given
    if isinstance(given, Mapping):
        return RetentionPolicy.from_dict(given)
    return RetentionPolicy.from_json(given)


def _summary(retained: Retained) -> dict[str, Any]:
    return {
        "kept": [kept.backup.id for kept in retained.plan.keep],
        "removed": list(retained.removed),
        "held": list(retained.held),
        "deleted": retained.deleted,
        "deleted_size": retained.deleted_size,
        "waiting": retained.waiting,
        "problems": list(retained.problems),
    }
