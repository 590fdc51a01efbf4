"""The rules by which a way of switching is judged, as data for the manual."""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.compatibility.finding import GateDecision
from airflow_streaming.core.compatibility.rules import Rule

_REFUSED: Final = GateDecision.NOT_ALLOWED
_BRINGS: Final = GateDecision.ALLOWED_WITH_CONSEQUENCE
_BY_CONSTRUCTION: Final = "by construction"
_PARALLEL: Final = "Use parallel outputs."

UNKNOWN_PLANS: Final = Rule(
    name="cutover.unknown_plans",
    severity=GateDecision.UNKNOWN,
    sentence="The plans of the running queries are not known, so nothing of them is compared.",
    source=_BY_CONSTRUCTION,
    remedy="Let the running version record its plans once, by a restart with this release.",
)
OUTPUT_SHARED: Final = Rule(
    name="cutover.output_shared",
    severity=_REFUSED,
    sentence="Both lanes must not write one place while they run side by side: every row would be "
    "there twice.",
    source=_BY_CONSTRUCTION,
    remedy="Let the script take the place from its arguments: `{output}`, or a name with `{stream}`.",
)
OUTPUT_UNSEEN: Final = Rule(
    name="cutover.output_unseen",
    severity=_BRINGS,
    sentence="Where the sink writes is in no plan: both lanes must not write one place while they "
    "run side by side.",
    source=_BY_CONSTRUCTION,
    remedy="See to it that the function, or the sink's options, follow `{output}` or `{stream}`.",
)
OWN_CHECKPOINT: Final = Rule(
    name="cutover.own_checkpoint",
    severity=_REFUSED,
    sentence="A checkpoint location that the script chooses itself would be shared by both lanes.",
    source=_BY_CONSTRUCTION,
    remedy="Leave the location out, or make it of `{checkpoint}`.",
)
CLEAN_SOURCE: Final = Rule(
    name="cutover.clean_source",
    severity=_REFUSED,
    sentence="With `cleanSource` one lane takes away files that the other has not read yet.",
    source="Structured Streaming guide, file source",
    remedy="Turn `cleanSource` off for the time of the cutover.",
)
ONE_READER: Final = Rule(
    name="cutover.one_reader",
    severity=_REFUSED,
    sentence="A socket, and a Kafka source with a group of its own choice, can have one reader only.",
    source="Structured Streaming guide, socket source; Kafka guide, `kafka.group.id`",
    remedy="Leave `kafka.group.id` out, or make it of `{stream}`; a socket cannot be read twice.",
)
CARRIED_STATE: Final = Rule(
    name="cutover.carried_state",
    severity=_REFUSED,
    sentence="A position that is carried over brings no state, and this query needs its state.",
    source=_BY_CONSTRUCTION,
    remedy="Start fresh, from the replay start, or from a clone.",
)
LATEST: Final = Rule(
    name="cutover.latest",
    severity=_BRINGS,
    sentence="A fresh start reads Kafka from its end, so what came before is in neither green's "
    "state nor its output.",
    source="Kafka guide, `startingOffsets`",
    remedy="Give `startingOffsets` or `startingTimestamp`, e.g. of `{replay_from_ms}`.",
)
HISTORY: Final = Rule(
    name="cutover.history",
    severity=_BRINGS,
    sentence="Green's output begins where its checkpoint was taken from blue's; what is older stays "
    "in blue's output, and consumers have to read both.",
    source=_BY_CONSTRUCTION,
    remedy="Start fresh to have everything in one place.",
)
REPLAYED: Final = Rule(
    name="cutover.replayed",
    severity=_BRINGS,
    sentence="Green's output begins where its sources are first read; results that closed before "
    "the replay's own watermark may lack rows.",
    source=_BY_CONSTRUCTION,
)
QUERIES: Final = Rule(
    name="cutover.queries",
    severity=_REFUSED,
    sentence="In a handover every query goes on from the one of its name, so both versions must "
    "have the same queries.",
    source=_BY_CONSTRUCTION,
    remedy=_PARALLEL,
)
QUERIES_DIFFER: Final = Rule(
    name="cutover.queries_differ",
    severity=_BRINGS,
    sentence="The versions have other queries: outputs come or go with the switch.",
    source=_BY_CONSTRUCTION,
)
SOURCES: Final = Rule(
    name="cutover.sources",
    severity=_REFUSED,
    sentence="In a handover green goes on at blue's offsets, so number, sort, order and place of "
    "the sources must be the same.",
    source="Structured Streaming guide, recovery semantics",
    remedy=_PARALLEL,
)
INCOMPARABLE: Final = Rule(
    name="cutover.incomparable",
    severity=_REFUSED,
    sentence="How far two queries with state are can be compared for files and Kafka, and for a "
    "rate source that both have from one checkpoint; not for other sources.",
    source="by construction: offsets of other sources have no meaning that two checkpoints share",
    remedy=_PARALLEL,
)
STATE_DIFFERS: Final = Rule(
    name="cutover.state_differs",
    severity=_REFUSED,
    sentence="In a handover what is open must be open in both versions alike: the same kinds of "
    "state in the same order, windows, gaps, join ranges, watermarks and output mode.",
    source="by construction: results that blue has emitted are those that green lets go of",
    remedy=_PARALLEL,
)
SINK: Final = Rule(
    name="cutover.sink",
    severity=_REFUSED,
    sentence="In a handover both versions write one sink, so its sort, format and partitioning must "
    "be the same.",
    source=_BY_CONSTRUCTION,
    remedy=_PARALLEL,
)
PLACE: Final = Rule(
    name="cutover.place",
    severity=_REFUSED,
    sentence="In a handover green is given blue's output for its own, so the place where its sink "
    "writes must follow `{output}` and nothing else.",
    source=_BY_CONSTRUCTION,
    remedy="Let the script make path, topic or table of `{output}`, or use parallel outputs.",
)
SINK_SCHEMA: Final = Rule(
    name="cutover.sink_schema",
    severity=_BRINGS,
    sentence="From the switch on rows have other columns in the same place.",
    source=_BY_CONSTRUCTION,
)
FILE_SINK: Final = Rule(
    name="cutover.file_sink_state",
    severity=_REFUSED,
    sentence="A file sink passes over batch ids that its log has, and the ids of a query with state "
    "cannot be made to go on from blue's.",
    source="Spark: FileStreamSink skips batches that _spark_metadata has",
    remedy=_PARALLEL,
)
IDS: Final = Rule(
    name="cutover.ids",
    severity=_REFUSED,
    sentence="This sink gets its batch ids from Spark alone and may remember them, and the ids of a "
    "query with state cannot be made to go on from blue's.",
    source=_BY_CONSTRUCTION,
    remedy="Use parallel outputs, write with `foreachBatch`, or declare that the sink only appends.",
)
IDS_SHIFTED: Final = Rule(
    name="cutover.ids_shifted",
    severity=_BRINGS,
    sentence="The batch ids that the `foreachBatch` function sees go on from blue's, and are others "
    "than those in Spark's own log and metrics.",
    source=_BY_CONSTRUCTION,
)
OPEN_BY_NEW_CODE: Final = Rule(
    name="cutover.open_by_new_code",
    severity=_BRINGS,
    sentence="What is open at the switch is finished by the new code alone, as if it had run all "
    "the time.",
    source=_BY_CONSTRUCTION,
)
LATE_IN_SESSIONS: Final = Rule(
    name="cutover.late_in_sessions",
    severity=_BRINGS,
    sentence="A row that blue dropped as late since green's last own batch may still lengthen a "
    "session that is open at the switch.",
    source="by construction: rows are absorbed in one batch, with the watermark of its beginning",
)
OWN_STATE: Final = Rule(
    name="cutover.own_state",
    severity=GateDecision.UNKNOWN,
    sentence="The author's own state is fed the same rows in other batches; whether it comes to the "
    "same, only the author can tell.",
    source=_BY_CONSTRUCTION,
    remedy="Compare the outputs before the switch, or use parallel outputs.",
)
STAYS: Final = Rule(
    name="cutover.stays",
    severity=_BRINGS,
    sentence="What green has written after a handover stays in the sink when blue is made live again.",
    source=_BY_CONSTRUCTION,
)

WAY_RULES: Final = (
    *(UNKNOWN_PLANS, OUTPUT_SHARED, OUTPUT_UNSEEN, OWN_CHECKPOINT, CLEAN_SOURCE, ONE_READER),
    *(CARRIED_STATE, LATEST, HISTORY, REPLAYED, QUERIES, QUERIES_DIFFER, SOURCES, INCOMPARABLE),
    *(STATE_DIFFERS, SINK, PLACE, SINK_SCHEMA, FILE_SINK, IDS, IDS_SHIFTED, OPEN_BY_NEW_CODE),
    *(LATE_IN_SESSIONS, OWN_STATE, STAYS),
)
"""Every rule of the ways of switching."""
