"""The pages of a stream's dags: what each does, and what a person can do with it."""

from __future__ import annotations

from airflow_streaming.core.spec import StreamSpec


def keep_alive_page(stream: StreamSpec) -> str:
    """Return the page of the dag that keeps a stream alive."""
    return f"""
### Stream `{stream.name}`

{_table(stream)}

The task launches the driver and leaves the worker; the driver outlives task, worker and Airflow.
It comes back when something has to be done: a restart, an alert, a stop. When a run ends, the next
one adopts the driver.

- **Stop it**: mark the task failed or successful by hand, or use `StopStreamOperator`. Clearing the
  task stops nothing.
- **Change it**: `{stream.name}_upgrade` looks, asks, backs up, watches and takes it back if it is
  no good. A run of this dag with **restart** applies an edited stream without any of that.
- **Exchange it unnoticed**, or for what its checkpoint cannot carry: `{stream.name}_blue_green` runs
  the new version beside it, compares, and switches.
- **Size it**: `{stream.name}_rescale` restarts the same code with other resources.
- **Get it back**: `{stream.name}_backup` backs the checkpoints up while it runs.
"""


def upgrade_page(stream: StreamSpec) -> str:
    """Return the page of the dag that upgrades a stream."""
    return f"""
### Upgrade of stream `{stream.name}`

{_table(stream)}

Another Spark, another script or another configuration **on the same checkpoint**. Trigger it: the
form says what the stream becomes. **The first run should be a dry run**, which is the default: it
only looks, and its task `preflight` shows the report.

| task | what it does | what it leaves when it is killed |
|---|---|---|
| `preflight` | asks the gates, finds the way back; fails when it must not be done | nothing |
| `rehearse` | runs it on a copy, its output thrown away | nothing |
| `approve` | asks a person; no, or silence, leaves everything as it was | the question |
| `back_up` | opens the change, takes a verified backup | the next try goes on |
| `switch` | stops at a batch boundary, backs up just that, starts the new deployment | the same |
| `soak` | watches batches, backlog and failures | the same |
| `checks` | runs the checks of the dag's author on what was written | the same |
| `settle` | keeps it, or brings the old deployment back | the same |

While the change is open the keep-alive task only looks on. **`settle` is the point of no return.**
When it has kept the new deployment, write the same into the dag, or the dag goes on proposing the
old one. On call without Airflow: `airflow-streaming upgrade status`, `keep`, `roll-back`, `abort`.
"""


def blue_green_page(stream: StreamSpec) -> str:
    """Return the page of the dag that runs another version beside the live one."""
    return f"""
### Blue-green of stream `{stream.name}`

{_table(stream)}

Another version **beside** the live one, with a checkpoint and an output of its own: for a change
that the old checkpoint cannot carry, or where nobody may notice the exchange. Trigger it: the form
says what the stream becomes and which way it switches. **The first run should be a dry run**, which
is the default: it only looks, and its task `preflight` shows both ways, what green begins with, and
what can be undone until when.

| task | what it does | what a failure, or a no, leaves |
|---|---|---|
| `preflight` | asks the gates, looks at both ways; fails when it must not be done | nothing |
| `approve` | asks a person whether green may start | nothing |
| `start_green` | opens the change, makes green's checkpoint, starts its driver | blue as it was |
| `catch_up` | green reads what blue has read | blue as it was |
| `shadow` | green has to be well for some time, and keep pace | blue as it was |
| `checks` | runs the checks of the dag's author on what green wrote | blue as it was |
| `compare` | compares the outputs, bucket by bucket and key by key | blue as it was |
| `approve_switch` | asks a person, with the judgement and the comparison | blue as it was |
| `switch` | tends green while the person thinks; then makes it live | blue as it was |
| `soak` | watches the live green | blue live again |
| `settle` | brings it to its end, whatever became of the others | green or blue, never between |
| `retire` | waits until blue need not be kept, takes its final backup | blue, stopped |

Before the switch everything that goes wrong is given up by itself, and after it rolled back by
itself. **The end of a good soak is the point of no return.** From then on blue is stopped, and its
checkpoint and output are kept for some time; to go back, cut over again. The next cutover does not
wait for that; it retires blue itself.

Consumers ask `airflow-streaming live {stream.name}`, or `live("{stream.name}")` in Python. On call
without Airflow: `airflow-streaming cutover status`, `promote`, `abort`, `roll-back`, `keep`. When
green stays, write the same into the dag, or the dag goes on proposing the old version.
"""


def rescale_page(stream: StreamSpec) -> str:
    """Return the page of the dag that restarts a stream with another size."""
    return f"""
### Another size for stream `{stream.name}`

{_table(stream)}

The same code and the same Spark with other resources or another configuration, on the same
checkpoint, with the same care as an upgrade: backup, stop at a batch boundary, soak, and back if it
is no good. When nothing is typed, the number of executors is what the figures of the running stream
advise: a dry run reports it, and from what. With *take the advice* off it is a plain restart.

The number of shuffle partitions of a query with state belongs to its checkpoint; another number is
refused, with the way out.
"""


def backup_page(stream: StreamSpec) -> str:
    """Return the page of the dag that backs a stream up."""
    return f"""
### Backups of stream `{stream.name}`

Backs the checkpoints up while the stream runs, reads every byte of the backup again, and then
removes what retention no longer keeps. The stream is neither paused nor touched. A backup is
brought back with `CheckpointRestoreOperator` or `airflow-streaming checkpoint restore`.
"""


def _table(stream: StreamSpec) -> str:
    # What is a template is told as it is: the page is made when the dag is parsed.
    rows = {
        "application": stream.application,
        "runtime": stream.runtime,
        "home": stream.home,
        "output": stream.output or "under the home",
    }
    lines = [f"| {name} | `{value}` |" for name, value in rows.items()]
    return "\n".join(["| what | value |", "|---|---|", *lines])
