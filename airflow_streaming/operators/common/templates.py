"""
Names that a template may use, by the Jinja settings of the task's DAG.

A DAG has its own delimiters, line statements, extensions, macros and filters, and a task its own
endings of template files. A text is parsed as Airflow will render it. Its characters prove nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jinja2
import jinja2.nodes
import jinja2.sandbox

TRUSTED_NAMES: Final = frozenset(
    {
        # Variables, connections and airflow.cfg: their editors administer the access of workers.
        *("var", "conn", "conf", "macros"),
        # Moments; Airflow parses them.
        *("ds", "ds_nodash", "ts", "ts_nodash", "ts_nodash_with_tz", "logical_date"),
        *("data_interval_start", "data_interval_end", "prev_data_interval_start_success"),
        *("prev_data_interval_end_success", "prev_start_date_success", "prev_end_date_success"),
    }
)
"""Names of a template's context that a run cannot set."""
_UNSEEN: Final = (
    # Parts that bring in another template, whose names are not seen.
    jinja2.nodes.Extends,
    jinja2.nodes.FromImport,
    jinja2.nodes.Import,
    jinja2.nodes.Include,
    # Extensions reach the context in these ways.
    jinja2.nodes.ContextReference,
    jinja2.nodes.DerivedContextReference,
    jinja2.nodes.EnvironmentAttribute,
    jinja2.nodes.ExtensionAttribute,
    jinja2.nodes.ImportedName,
    jinja2.nodes.InternalName,
)
_TEXT: Final = (jinja2.nodes.Template, jinja2.nodes.Output, jinja2.nodes.TemplateData)
_CALLED_BY_NAME: Final = (jinja2.nodes.Filter, jinja2.nodes.Test)
_USUAL: Final = jinja2.sandbox.SandboxedEnvironment(autoescape=True)


class Templates:
    """
    Reads the templates of a task's fields.

    :param environment: Airflow renders the fields with it.
    :param endings: The task's ``template_ext``. A text with such an ending names a file with a template.
    """

    def __init__(self, environment: jinja2.Environment, endings: Sequence[str] = ()) -> None:
        self._environment, self._endings = environment, tuple(endings)

    def is_constant(self, text: str) -> bool:
        """Tell whether Jinja leaves a text unchanged in every run; ends of lines may differ."""
        tree = self._parsed(text)
        if tree is None or any(
            not isinstance(node, _TEXT) for node in tree.find_all(jinja2.nodes.Node)
        ):
            return False
        kept = "".join(node.data for node in tree.find_all(jinja2.nodes.TemplateData))
        return kept.splitlines() == text.splitlines()

    def is_authors(self, text: str) -> bool:
        """Tell whether a text is rendered from the author's words and trusted names only."""
        tree = self._parsed(text)
        if tree is None:
            return False  # Airflow's own error follows.
        names = {one.name for one in tree.find_all(jinja2.nodes.Name) if one.ctx == "load"}
        return (
            names <= TRUSTED_NAMES
            and next(tree.find_all(_UNSEEN), None) is None
            and not any(map(self._sees_context, tree.find_all(_CALLED_BY_NAME)))
        )

    def _parsed(self, text: str) -> jinja2.nodes.Template | None:
        try:
            return self._environment.parse(self._source(text))
        except (jinja2.TemplateError, OSError, UnicodeError, RecursionError):
            return None

    def _source(self, text: str) -> str:
        if not self._endings or not text.endswith(self._endings):
            return text
        if self._environment.loader is None:
            raise jinja2.TemplateNotFound(text)
        return self._environment.loader.get_source(self._environment, text)[0]

    def _sees_context(self, node: Any) -> bool:
        """Tell whether the author's own filter or test gets the whole context of the run."""
        kind = "filters" if isinstance(node, jinja2.nodes.Filter) else "tests"
        found = getattr(self._environment, kind).get(node.name)
        usual = getattr(_USUAL, kind).get(node.name)
        return found is not None and found is not usual and _gets_context(found)


def _gets_context(function: Any) -> bool:
    mark = getattr(function, "jinja_pass_arg", None)
    return mark is not None and mark.name == "context"


DEFAULT: Final = Templates(_USUAL)
"""A DAG without Jinja settings of its own."""
