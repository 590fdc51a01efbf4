"""The operator that removes what of a stream is old and not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import checked, is_filled_in
from airflow_streaming.model.arguments.keeping import PrunePolicy
from airflow_streaming.model.arguments.literals import mapping_of
from airflow_streaming.operators.common.base import who
from airflow_streaming.operators.common.checkpoint import CheckpointTask, truth

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.changes.pruning.observe import BackedUp


class StreamPruneOperator(CheckpointTask):
    """
    Remove old epochs, history, timeline, driver logs and checkpoints of retired deployments.

    Data that a backup, an open change, a live lane or a standby needs stays. While a change of the
    stream is open, all data stays. Driver logs are removed on the host where the task runs. The
    next run finishes a run that died. The return value counts the removed items by kind.

    :param stream: The stream's name; both lanes are pruned. (templated)
    :param home: The home's URI. (templated)
    :param store: The backup store's URI; ``<home>/_backups`` by default. (templated)
    :param policy: How long things are kept: a ``PrunePolicy``, or its fields as a mapping or a JSON
        text with ``keep`` in days. (templated)
    :param dry_run: Plan only; the log lists the items to remove and the reason to keep each other
        item. (templated)
    """

    template_fields: Sequence[str] = (*CheckpointTask.template_fields, "policy", "is_dry_run")

    @checked
    def __init__(
        self,
        *,
        policy: PrunePolicy | Mapping[str, Any] | str = PrunePolicy(),
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.policy = policy
        self.is_dry_run = dry_run
        if not self.home or not self.stream:
            raise SpecError(f"Task {self.task_id!r}: give home and stream.")
        if not is_filled_in(policy) and "{{" not in str(policy):
            prune_policy_of(policy)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_streaming.checkpoints.backup.stream_backup import begun_deployment
        from airflow_streaming.hooks.home import access  # not at dag parse
        from airflow_streaming.services.pruning import prune
        from airflow_streaming.settings import read_settings
        from airflow_streaming.storage.fsspec_blobs import open_blobs

        with self.at_work():
            self.check_may_operate(context)
            begun_deployment(self.open_stream())
            home, policy = self.open_home(), prune_policy_of(self.policy)
            is_dry_run = truth(self.is_dry_run, "dry_run")
            done = prune(
                home,
                open_blobs(home.store.uri, **access(home.store.uri, self.home_conn_id)),
                str(self.stream),
                policy,
                by=who(context),
                dry_run=is_dry_run,
                driver_folder=read_settings().driver_folder,
                backed_up=self._backed_up(),
            )
        from airflow_streaming.changes.pruning.decide import describe  # not at dag parse

        for line in describe(done.plan):
            self.log.info("%s", line)
        for problem in done.problems:
            self.log.warning("%s", problem)
        counts: dict[str, int] = {}
        for one in done.removed:
            counts[one.what.value] = counts.get(one.what.value, 0) + 1
        would = "would be removed" if is_dry_run else "removed"
        self.log.info("%s: %d files (%d bytes) %s.", done.stream, done.files, done.size, would)
        return {
            "removed": counts,
            "files": done.files,
            "size": done.size,
            "blocked": done.plan.blocked,
            "problems": list(done.problems),
        }

    def _backed_up(self) -> BackedUp:
        from airflow_streaming.changes.pruning.observe import backed_up_in, no_backups
        from airflow_streaming.hooks.home import access  # not at dag parse
        from airflow_streaming.storage.fsspec_blobs import open_blobs

        uri = self.store_uri()
        if not self.store and not open_blobs(uri, **access(uri, self.store_conn())).entries(""):
            return no_backups
        return backed_up_in(self.open_store())


def prune_policy_of(given: PrunePolicy | Mapping[str, Any] | str) -> PrunePolicy:
    """
    Return the policy from one of its three forms.

    :raises SpecError: it has another form.
    """
    if isinstance(given, PrunePolicy):
        return given
    if isinstance(given, str):
        given = mapping_of(given, "policy")
    known = {field.name for field in fields(PrunePolicy)}
    if not isinstance(given, Mapping) or not set(given) <= known:
        raise SpecError(f"policy is {given!r:.80}; its fields are {', '.join(sorted(known))}.")
    values = dict(given)
    days = values.get("keep")
    if isinstance(days, int | float) and not isinstance(days, bool) and abs(days) < 1e6:
        values["keep"] = timedelta(days=days)
    if "outputs" in values:
        # A template gives text.
        values["outputs"] = truth(values["outputs"], "outputs")
    return PrunePolicy(**values)
