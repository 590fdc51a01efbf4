"""The docs of a stream's DAGs: what each DAG does, and how to use it."""

from __future__ import annotations

from airflow_streaming.reports.markdown import markdown
from airflow_streaming.reports.report import code, report_of, table
from airflow_streaming.spec import StreamSpec


def keep_alive_page(stream: StreamSpec) -> str:
    """Return the page of the dag that keeps a stream alive."""
    return f"""
### Stream `{stream.name}`

{_table(stream)}

The task launches the driver and leaves the worker; the driver outlives task, worker and Airflow.
It resumes on a worker to restart the driver, to send an alert or to stop the stream. When a run ends,
the next one adopts the driver.

- **Stop it**: mark the task failed or successful by hand, or use `StopStreamOperator`. Clearing the
  task stops nothing.
- **Change it**: `{stream.name}_upgrade` checks the change, requests an approval, backs up, soaks
  the new deployment and rolls it back if it fails. A run of this DAG with **restart** applies an edited
  spec without any of these steps.
- **Replace it without downtime**, or when its checkpoint cannot be reused: `{stream.name}_blue_green` runs
  the new version beside it, compares, and switches.
- **Resize it**: `{stream.name}_rescale` restarts the same code with other resources.
- **Back it up**: `{stream.name}_backup` backs the checkpoints up while it runs, and
  `{stream.name}_restore` verifies a backup and restores it.
"""


def upgrade_page(stream: StreamSpec) -> str:
    """Return the page of the dag that upgrades a stream."""
    return f"""
### Upgrade of stream `{stream.name}`

{_table(stream)}

Another Spark, another script or another configuration **on the same checkpoint**. Trigger it: the
form describes the new deployment. **Start with a dry run**, which is the default: it changes nothing,
and its task `preflight` shows the report.

| task | action | after a kill |
|---|---|---|
| `preflight` | runs the gates, plans the rollback; fails when the change is blocked | nothing changed |
| `rehearse` | decides by a run on a copy of the checkpoints, whose output is discarded | nothing changed |
| `approve` | requests an approval; a rejection or a timeout changes nothing | the open request |
| `back_up` | opens the change, takes a verified backup | the next attempt resumes |
| `switch` | stops at a batch boundary, backs up that batch, starts the new deployment | the same |
| `soak` | watches batches, backlog and failures | the same |
| `checks` | runs the DAG author's checks on the new output | the same |
| `settle` | keeps it, or rolls back to the old deployment | the same |

While the change is open, the keep-alive task only observes. **`settle` is the point of no return.**
When it has kept the new deployment, write the same into the DAG, or the DAG keeps proposing the old
one. Without Airflow, use `airflow-streaming upgrade status`, `keep`, `roll-back`, `abort`.
"""


def blue_green_page(stream: StreamSpec) -> str:
    """Return the page of the dag that runs another version beside the live one."""
    return f"""
### Blue-green of stream `{stream.name}`

{_table(stream)}

Another version **beside** the live one, with a checkpoint and an output of its own: for a change
that the old checkpoint does not allow, or a switch without downtime. Trigger it: the form describes
the new version and the switch method. **Start with a dry run**, which is the default: it changes
nothing, and its task `preflight` shows both methods, what green starts with, and how long a rollback
is possible.

| task | action | after a failure or a rejection |
|---|---|---|
| `preflight` | runs the gates, judges both methods; fails when the change is blocked | nothing changed |
| `approve` | requests an approval to start green | nothing changed |
| `start_green` | opens the change, makes green's checkpoint, starts its driver | blue unchanged |
| `catch_up` | green reads what blue has read | blue unchanged |
| `shadow` | green must be healthy for some time, and keep pace | blue unchanged |
| `checks` | runs the DAG author's checks on green's output | blue unchanged |
| `compare` | compares the outputs, bucket by bucket and key by key | blue unchanged |
| `approve_switch` | requests an approval, with the verdict and the comparison | blue unchanged |
| `switch` | keeps green running until the approval; then makes it live | blue unchanged |
| `approve_end` | requests an approval to keep green, if the form says so | blue live again |
| `soak` | watches the live green | blue live again |
| `settle` | finishes the cutover, even if another task failed | green or blue, never between |
| `retire` | waits for the end of blue's retention, takes its final backup | blue, stopped |

A failure before the switch aborts the cutover automatically; a failure after it rolls it back. **The end of a good soak is the point of no return.** From then on blue is stopped, and its
checkpoint and output are kept for some time; to go back, start another cutover. The next cutover does
not wait for the retention; it retires blue itself.

Consumers find the live output with `airflow-streaming live {stream.name}`, or
`live("{stream.name}")` in Python. Without Airflow, use `airflow-streaming cutover status`, `promote`, `abort`, `roll-back`, `keep`. When
green stays, write the new version into the DAG, or the DAG keeps proposing the old one.
"""


def rescale_page(stream: StreamSpec) -> str:
    """Return the page of the dag that restarts a stream with another size."""
    return f"""
### Another size for stream `{stream.name}`

{_table(stream)}

The same code and the same Spark with other resources or another configuration, on the same
checkpoint, with the same care as an upgrade: backup, stop at a batch boundary, soak, and rollback
if it fails. With empty fields, the number of executors comes from the figures of the running stream; a
dry run reports the number and the figures. With *take the advice* off it is a plain restart.

The number of shuffle partitions of a query with state belongs to its checkpoint; another number is
refused, and the error names the alternative.
"""


def backup_page(stream: StreamSpec) -> str:
    """Return the page of the dag that backs a stream up."""
    return f"""
### Backups of stream `{stream.name}`

Backs the checkpoints up while the stream runs, reads every byte of the backup again, and then
removes what retention no longer keeps. The stream is neither paused nor touched. A backup is
verified again and restored with `{stream.name}_restore`.
"""


def restore_page(stream: StreamSpec) -> str:
    """Return the page of the dag that restores a stream from a backup."""
    return f"""
### Restore of stream `{stream.name}`

{_table(stream)}

| task | action | after a failure |
|---|---|---|
| `verify` | verifies the backup; fails if it is damaged | nothing changed |
| `restore` | writes it beside the old checkpoint, as a new deployment | nothing changed |

**Start with a dry run**, which is the default: it reports which batches and offsets go back and what the
sink sees again. A restore needs a stopped stream and leaves it stopped: start it when its new deployment
is the current one. The old checkpoint stays at its path and is backed up first.
"""


def prune_page(stream: StreamSpec) -> str:
    """Return the page of the prune dag."""
    return f"""
### Old things of stream `{stream.name}`

Removes epochs, history, timeline, driver logs and checkpoints of retired deployments once they are
older than the period and nothing needs them. While a change of the stream is open, nothing goes. See
what would go first: `airflow-streaming prune {stream.name} --dry-run`.
"""


def windows_page(stream: StreamSpec, asset: str) -> str:
    """Return the page of the dag that announces windows."""
    return f"""
### Complete windows of stream `{stream.name}`

Announces each window of event time once the committed output has passed its end: one event of the asset
`{asset}`, with the begin of the window as its partition key. A run waits for windows, announces them and
ends; the next run settles what it announced. Kills, restores and cutovers lose and double nothing.

Airflow sends no event to a paused DAG. After a pause, announce the range again by `{stream.name}_announce`.
"""


def announce_page(stream: StreamSpec) -> str:
    """Return the page of the dag that announces a range of windows again."""
    return f"""
### Announce windows of stream `{stream.name}` again

Trigger it with a range and a reason, for example after a correction of old data. The run of
`{stream.name}_windows` announces the complete windows of the range with the next revision. In a shell:
`airflow-streaming windows {stream.name} --from TIME --until TIME --reason TEXT`.
"""


def freshness_page(stream: StreamSpec) -> str:
    """Return the page of the dag that measures freshness."""
    return f"""
### Freshness of stream `{stream.name}`

Measures in which share of the time the committed output was complete in time, by the history of the batches
in the home. It alerts while the error budget burns too fast, and records the late times once an hour. See
the figures: `airflow-streaming status {stream.name}`.
"""


def _table(stream: StreamSpec) -> str:
    # Templates are not rendered here: the page is made when the dag is parsed.
    rows = {
        "pipeline" if stream.pipeline else "application": stream.program,
        "runtime": stream.runtime,
        "home": stream.home,
        "output": stream.output or "under the home",
    }
    shown = table(("what", "value"), ((name, code(str(told))) for name, told in rows.items()))
    return markdown(report_of([shown])).rstrip()
