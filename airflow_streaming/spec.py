"""
The description of a stream in a dag file.

A spec may hold secrets in ``conf`` and ``env``, so it never leaves the process. The home records a
``Deployment`` of it: secrets replaced by a mark, the script by its digest, and the profile by its values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from airflow_streaming.advice.profile import Profile, StateStore, production
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.autoscale import (
    CORES_EACH,
    EXECUTORS,
    Autoscale,
    configured_executors,
    executor_cores,
    is_dynamic,
)
from airflow_streaming.model.arguments.fields import (
    ANY_SIGN,
    Range,
    check_values,
    is_filled_in,
    named_fields,
    of_named,
    refuse_blank,
)
from airflow_streaming.model.arguments.form_policy import FormPolicy
from airflow_streaming.model.arguments.placeholders import OF_ARGUMENTS, check_placeholders
from airflow_streaming.model.arguments.policies import Blackout, Budget, Freshness, RestartPolicy
from airflow_streaming.model.health_rules import Comparison, HealthRule, HealthRules, Severity
from airflow_streaming.model.lease import LONGEST_LEASE, SHORTEST_LEASE, USUAL_LEASE, OnLostHost
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.names import (
    NAME_RULE,
    check_is_stream,
    check_stream_name,
    is_path_part,
)
from airflow_streaming.model.spark.conf import SHIPPED, check_conf_key, conf_text
from airflow_streaming.model.spark.launchers import MAX_STOP_GRACE, USUAL_STOP_GRACE, near_launcher
from airflow_streaming.model.uris import check_uri

if TYPE_CHECKING:
    from airflow_streaming.advice.profile_conf import ConfValue
    from airflow_streaming.model.arguments.choices import Origin
    from airflow_streaming.model.arguments.keeping import RetentionPolicy
    from airflow_streaming.model.arguments.terms import CompareTerms, ReadyTerms, SoakTerms
    from airflow_streaming.model.records.upgrade import SinkFacts

_LOADED_LATER: Final = {
    "CompareTerms": "model.arguments.terms",
    "Origin": "model.arguments.choices",
    "ReadyTerms": "model.arguments.terms",
    "RetentionPolicy": "model.arguments.keeping",
    "SoakTerms": "model.arguments.terms",
}
"""Names of options; a DAG file that only keeps a stream alive does not pay for their modules."""
ANY: Final = "a template"
"""Instead of a value that a run fills in."""
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

__all__ = [
    "Autoscale",
    "Blackout",
    "Budget",
    "CompareTerms",
    "Comparison",
    "FormPolicy",
    "Freshness",
    "HealthRule",
    "HealthRules",
    "Metric",
    "OnLostHost",
    "Origin",
    "Profile",
    "ReadyTerms",
    "RestartPolicy",
    "RetentionPolicy",
    "Severity",
    "SoakTerms",
    "StateStore",
    "StreamSpec",
    "production",
]


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StreamSpec:
    """
    A PySpark application with streaming queries, as a dag describes it.

    ``{stream}``, ``{output}``, ``{checkpoint}``, ``{home}`` and ``{deployment}`` in the arguments
    are replaced when the driver is launched. So are ``{replay_from}`` and ``{replay_from_ms}``: the
    time from which a fresh checkpoint must read, as text and in milliseconds, empty and 0 but in
    a cutover that starts so. A list is as good as a tuple.

    :param name: The stream's name: one folder of the home. Up to 86 letters, digits, '.', '_' and '-',
        the first one a letter or a digit, without '..' or a '.' at the end. (templated)
    :param application: The PySpark script, a path (relative to the dag file) or URI. (templated)
    :param pipeline: Instead of an application: the YAML file of a declarative pipeline, whose flows are the
        stream's queries (Spark 4.1 or newer). Updates follow each other; ``application_args`` may be
        ``("--every", "30")``, seconds between two updates, or ``("--once",)``. (templated)
    :param home: Folder or object-store URI that holds the records of all streams. (templated)
    :param runtime: Name of a Spark installation from ``[streaming] runtimes``. (templated)
    :param application_args: Arguments for the script. Not for secrets. (templated)
    :param conf: Spark configuration. It reaches Spark through a private file, and wins over the
        profile, key by key. A key is any text after ``spark.`` without blanks, ``=`` and control
        characters; only values are templated. (templated)
    :param env: Environment of the driver; values are never recorded. (templated)
    :param py_files: Python files or zips beside the script. (templated)
    :param jars: Jars for the class path. (templated)
    :param packages: Maven coordinates. (templated)
    :param files: Files to ship to executors. (templated)
    :param output: Where the script writes; by default a folder under the home. (templated)
    :param checkpoint: Folder for the queries' checkpoints; default: under the home. (templated)
    :param restart: When a failed or unhealthy driver comes back.
    :param health: Bounds of a healthy stream: times of silence and standstill, and rules on
        figures; default: no rule on figures.
    :param profile: Recommended configuration under ``conf``, e.g. ``production(cores=8)``.
    :param fair_pools: Give every query a fair scheduler pool of its own; by default when the
        profile asks for fair scheduling.
    :param launcher: Who starts the driver. By default the Spark connection's master and deploy mode
        say so: in client mode ``local``, a process of the worker's host; in cluster mode
        ``kubernetes`` for ``k8s://``, ``standalone`` for ``spark://``, ``yarn`` for ``yarn``. Or
        ``apache-operator`` or ``kubeflow-operator`` for ``k8s://``, or the name of a launcher that
        another package registers. A driver that runs already stays with the launcher that started
        it.
    :param on_lost_host: The act when the stream's driver is silent and its host cannot be
        seen: ``ask`` waits for the host or for an operator, ``takeover`` starts a new driver once the
        lease of the old one is over. It counts from the next launch on.
    :param lease: With ``takeover``: how long a driver continues without a heartbeat that it got
        written, 30 s to one day.
    :param standby: Keep a second driver of the same deployment warm: its session is up and its
        queries wait just before they start. When the live driver has died, or is replaced, the next
        epoch is that driver's. It takes the memory of a second driver, and the script's part before
        its first query runs in it too. For drivers on the worker's host (launcher ``local``);
        elsewhere it is not started.
    :param autoscale: Change the number of executors with the load, between two batches and without a
        restart where Spark can, inside the limits given; default: the size stays what ``conf`` says. It needs
        ``spark.executor.instances`` and ``spark.executor.cores`` in ``conf``, the size to begin with.
        With dynamic allocation Spark gets the limits instead, unless ``conf`` has its own.
    :param stop_grace: How long a stop may wait for a batch boundary before the driver is killed, at
        most one day.
    :param repair_sinks: Before a launch, move the one batch out of a file sink that its checkpoint has planned
        and not committed, which a killed driver leaves there. ``False``: the launch only looks, and
        timeline and alert name ``airflow-streaming checkpoint repair``, the same repair by hand. It matters
        to queries with state in checkpoint format 2, which cannot start before.
    :param form_policy: Which of these fields a run may give in a form, its conf, or a template of both;
        default: sizes, plain settings of Spark and a configured runtime, and no code.
    :param freshness: The share of the time in which the data must be on time, e.g.
        ``Freshness(complete_within=timedelta(minutes=15))``; default: no objective.
    :param labels: Labels by which commands find it, e.g. ``{"team": "payments", "tier": "1"}``; at most 32,
        with the rules of Kubernetes' labels.
    :raises SpecError: a field is of another kind, or out of its range; fields that are templates are
        checked when a run has filled them in.
    """

    template_fields: ClassVar[tuple[str, ...]] = (
        "name",
        "application",
        "pipeline",
        "home",
        "runtime",
        "application_args",
        "conf",
        "env",
        "py_files",
        "jars",
        "packages",
        "files",
        "output",
        "checkpoint",
    )

    name: str
    application: str = ""
    pipeline: str = ""
    home: str
    runtime: str
    application_args: Sequence[str] = ()
    conf: Mapping[str, str | Annotated[float, ANY_SIGN] | bool] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    py_files: Sequence[str] = ()
    jars: Sequence[str] = ()
    packages: Sequence[str] = ()
    files: Sequence[str] = ()
    output: str | None = None
    checkpoint: str | None = None
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    health: HealthRules = field(default_factory=HealthRules)
    profile: Profile | None = None
    fair_pools: bool | None = None
    launcher: str = ""
    on_lost_host: OnLostHost | str = OnLostHost.ASK
    lease: Annotated[timedelta, Range(least=SHORTEST_LEASE, most=LONGEST_LEASE)] = USUAL_LEASE
    standby: bool = False
    autoscale: Autoscale | None = None
    stop_grace: Annotated[timedelta, Range(least=timedelta(0), most=MAX_STOP_GRACE)] = (
        USUAL_STOP_GRACE
    )
    repair_sinks: bool = True
    form_policy: FormPolicy = field(default_factory=FormPolicy)
    freshness: Freshness | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"StreamSpec({json.dumps(self.serialize(), sort_keys=True, default=str)})"

    def serialize(self) -> dict[str, Any]:
        """Return the spec without secrets, as Airflow shows it among the rendered templates."""
        # Not when it is written.
        from airflow_streaming.model.spark.secret_conf import redact
        from airflow_streaming.model.spark.secrets import REDACTED

        values = {name: _shown(getattr(self, name)) for name in self.template_fields}
        is_conf, is_env = isinstance(self.conf, Mapping), isinstance(self.env, Mapping)
        # A template holds no secret.
        conf = {"conf": redact(self.conf)} if is_conf else {}
        return {**values, **conf, **({"env": dict.fromkeys(self.env, REDACTED)} if is_env else {})}

    def configuration(
        self,
        spark_version: str,
        carried_on: Mapping[str, str] | None = None,
        sinks: Sequence[SinkFacts] = (),
    ) -> tuple[ConfValue, ...]:
        """
        Return the configuration for one Spark version, each value with where it came from.

        :param carried_on: Conf of the deployment whose checkpoint is continued; ``None`` for a new
            one.
        :param sinks: The sinks that the stream's drivers have recorded.
        :raises SpecError: not a Spark version.
        """
        from airflow_streaming.advice.profile_conf import resolve  # not at dag parse

        return resolve(self.profile, spark_version, self.conf, carried_on=carried_on, sinks=sinks)

    @property
    def program(self) -> str:
        """Return the script, or the YAML of the pipeline."""
        return self.pipeline or self.application

    @property
    def has_fair_pools(self) -> bool:
        """Tell whether every query gets a scheduler pool of its own."""
        if self.fair_pools is not None:
            return self.fair_pools
        return self.profile is not None and self.profile.fair_scheduling

    def __post_init__(self) -> None:
        self._check(self.template_fields)

    def check(self) -> None:
        """
        Check a spec whose templates are filled in, as far as that goes without looking outside.

        :raises SpecError: with the field and what to write instead.
        """
        self._check(())
        check_is_stream(self.name)

    def check_written(self) -> None:
        """
        Check the author's own text. In values that a run fills in, braces are data.

        :raises SpecError: an argument has a placeholder with two letters swapped, e.g. ``{outptu}``.
        """
        arguments = () if is_filled_in(self.application_args) else self.application_args
        check_placeholders(
            f"application_args of {of_named('stream', self.name)}",
            (one for one in arguments if not is_filled_in(one)),
            OF_ARGUMENTS,
            literally="{{{{ '{{{}}}' }}}}, a template of that text",
        )

    def _check(self, templated: tuple[str, ...]) -> None:
        check_values(self, of=of_named("stream", self.name), templated=templated)
        # Values that a run fills in are checked in the run.
        given = {
            one.name: value
            for one in fields(self)
            if not is_filled_in(value := getattr(self, one.name)) or one.name not in templated
        }
        _check_names(self.name, given)
        _check_program(self, given)
        if self.labels:
            from airflow_streaming.model.arguments.selector import (
                check_labels,
            )  # only for a stream with labels

            check_labels(self.name, self.labels)
        if self.freshness is not None:
            refuse_blank("Freshness", query=self.freshness.query)
        for what in ("home", "output", "checkpoint"):
            if uri := given.get(what):
                check_uri(uri, what)
        for what in SHIPPED:
            _check_shipped(self.name, what, given.get(what, ()))
        conf = given.get("conf")
        if conf is not None and not any(map(is_filled_in, conf.values())):
            _check_autoscale(self)
            _check_kept_for(self)


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"airflow_streaming.{_LOADED_LATER[name]}"), name)


def _check_names(stream: str, given: Mapping[str, Any]) -> None:
    for what in ("name", "home", "runtime"):
        if what in given and not given[what].strip():
            raise SpecError(f"Stream {stream!r} has no {what}. Give it as a text.")
    if "name" in given:
        check_stream_name(stream)
    _check_looked_up(stream, given)
    for key in given.get("conf", ()):
        check_conf_key(key)
    for key in given.get("env", ()):
        if not _ENV_NAME.fullmatch(key):
            raise SpecError(f"{key!r} in env of stream {stream!r} is not a valid variable name.")


def _check_program(spec: StreamSpec, given: Mapping[str, Any]) -> None:
    """Check that a stream has one program, and of a pipeline also what it cannot have."""
    application, pipeline = given.get("application", ANY), given.get("pipeline", ANY)
    if not application.strip() and not pipeline.strip():
        raise SpecError(
            f"Stream {spec.name!r} has neither an application nor a pipeline. Give one of them."
        )
    if given.get("application") and given.get("pipeline"):
        raise SpecError(
            f"Stream {spec.name!r} has both an application and a pipeline. Give one of them."
        )
    if not spec.pipeline and not application.lower().endswith((".yml", ".yaml")):
        return
    from airflow_streaming.model.pipeline.program import (
        is_pipeline,
        rhythm_of,
    )  # only for a pipeline

    if application is not ANY and is_pipeline(application):
        raise SpecError(
            f"application of stream {spec.name!r} is {application!r:.80}, the file of a declarative pipeline. "
            "Give it as pipeline."
        )
    if pipeline is not ANY and not is_pipeline(pipeline):
        raise SpecError(
            f"pipeline of stream {spec.name!r} is {pipeline!r:.80}. Give the pipeline's YAML file, *.yml."
        )
    if spec.standby:
        raise SpecError(
            f"Stream {spec.name!r} has both a pipeline and standby. A pipeline cannot wait before its first "
            "update, so leave standby out."
        )
    arguments = given.get("application_args", ())
    if not any(map(is_filled_in, arguments)):
        rhythm_of(tuple(map(str, arguments)))


def _check_looked_up(stream: str, given: Mapping[str, Any]) -> None:
    """Check names of a runtime and a launcher, which the host that starts a driver looks up."""
    if near := near_launcher(given["launcher"]):
        raise SpecError(
            f"launcher of stream {stream!r} is {given['launcher']!r:.80}; did you mean {near!r}?"
        )
    for what in ("runtime", "launcher"):
        if given.get(what) and not is_path_part(given[what]):
            raise SpecError(
                f"{what} of stream {stream!r} is {given[what]!r:.80}, which is no name. {NAME_RULE}"
            )


def _check_kept_for(spec: StreamSpec) -> None:
    if not any(key.endswith(".keptFor") for key in spec.conf):
        return
    from airflow_streaming.model.products.retention import (  # not at dag parse
        KEPT_FOR,
        parse_kept_for,
    )

    try:
        parse_kept_for(conf_text(spec.conf.get(KEPT_FOR, "")))
    except ValueError as err:
        raise SpecError(f"conf of stream {spec.name!r}: {err}") from None


def _check_autoscale(spec: StreamSpec) -> None:
    conf = {key: conf_text(value) for key, value in spec.conf.items()}
    if spec.autoscale is None or is_dynamic(conf):
        return
    if spec.standby:
        raise SpecError(
            f"Stream {spec.name!r} has both standby and autoscale. A standby driver has the size it was "
            "warmed with, so give one of them."
        )
    if configured_executors(conf) is None or not executor_cores(conf):
        raise SpecError(
            f"autoscale of stream {spec.name!r} counts executors. Give {EXECUTORS} and {CORES_EACH} in "
            "its conf, the size to begin with."
        )


def _check_shipped(stream: str, what: str, values: Sequence[str]) -> None:
    if any(_shown(value) != value for value in values):
        raise SpecError(
            f"{what} of stream {stream!r} has a secret in a URI, which every user of the host could "
            f"read on the command line. With the launchers 'local' and 'yarn' give it in conf, as "
            f"{SHIPPED[what]}; elsewhere name a place whose address has no secret in it."
        )


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        from airflow_streaming.model.spark.secrets import mask_uri  # not when it is written

        return mask_uri(value)
    return [_shown(item) for item in value] if isinstance(value, list | tuple) else value
