"""What the JSON of a plan leaves out, asked of a JVM that is made up."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver.plan.expressions import Wording, tree_of, whole_tree
from airflow_streaming.driver.plan.hidden import Hidden
from airflow_streaming.driver.plan.nodes import Node, read_tree
from airflow_streaming.model.plan.text import text_of
from airflow_streaming.model.plan.tree import ColumnRef, Tree, used_in

EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
ON_TIME: dict[str, Any] = {"spark.watermarkDelayMs": 10_000}


def metadata(told: Any) -> SimpleNamespace:
    kind = SimpleNamespace(getName=lambda: "org.apache.spark.sql.types.Metadata")
    return SimpleNamespace(getClass=lambda: kind, json=lambda: json.dumps(told))


def alias(own: dict[str, Any] | None, of_column: dict[str, Any]) -> str:
    """Return the text of a column with an alias, each with its metadata; ``None`` for none."""
    told = [
        # Spark's JSON has an empty object for metadata of any kind.
        {"class": f"{EXPRESSIONS}Alias", "num-children": 1, "child": 0, "name": "at"}
        | ({} if own is None else {"explicitMetadata": {}}),
        {"class": f"{EXPRESSIONS}AttributeReference", "num-children": 0, "name": "ts"},
    ]
    column = SimpleNamespace(metadata=lambda: metadata(of_column))
    kind = SimpleNamespace(getName=lambda: "scala.Some")
    some = SimpleNamespace(getClass=lambda: kind, get=lambda: metadata(own))
    top = SimpleNamespace(child=lambda: column, explicitMetadata=lambda: some)
    tree = read_tree(json.dumps(told))
    return text_of(tree_of(tree, Wording(hidden=Hidden(top).placed(tree))))


@pytest.mark.parametrize(
    ("own", "of_column", "text"),
    [
        pytest.param(None, ON_TIME, "ts AS at", id="none"),
        pytest.param(ON_TIME, ON_TIME, "ts AS at", id="the column's"),
        pytest.param({"__dataset_id": 1}, {}, "ts AS at", id="of this run"),
        pytest.param(
            {"unit": "s"},
            ON_TIME,
            """ts[explicitMetadata={"unit": "s"}] AS at""",
            id="its own, without the event time",
        ),
        pytest.param({}, ON_TIME, "ts[explicitMetadata={}] AS at", id="empty"),
        pytest.param(
            {"unit": "s"}, {}, """ts[explicitMetadata={"unit": "s"}] AS at""", id="one more"
        ),
    ],
)
def test_metadata_of_an_alias_is_told_where_it_is_not_the_columns(
    own: dict[str, Any] | None, of_column: dict[str, Any], text: str
) -> None:
    assert alias(own, of_column) == text


def node(name: str, fields: dict[str, object], *children: Node) -> Node:
    return Node(name=name, index=0, fields=fields, children=children)


def literal(value: object) -> Node:
    return node("Literal", {"value": str(value), "dataType": "long"})


@pytest.mark.parametrize(
    ("name", "before", "fields"),
    [
        ("Rand", (), {"hideSeed": True}),
        ("Randn", (), {}),
        ("Uniform", (1, 9), {}),
        ("RandStr", (5,), {}),
    ],
)
def test_a_seed_that_each_planning_draws_does_not_count_and_other_arguments_do(
    name: str, before: tuple[int, ...], fields: dict[str, object]
) -> None:
    def tree(seed: int, more: int = 0) -> Tree:
        arguments = (*(literal(value + more) for value in before), literal(seed))
        return tree_of(node(name, fields, *arguments))

    assert tree(7) == tree(-8)
    assert not before or tree(7) != tree(7, more=1)


@pytest.mark.parametrize(
    ("name", "field", "counts"),
    [("Uuid", "randomSeed", False), ("Shuffle", "randomSeed", False), ("XxHash64", "seed", True)],
)
def test_a_seed_that_is_a_field_counts_of_a_hash_alone(name: str, field: str, counts: bool) -> None:
    one, other = (tree_of(node(name, {field: seed})) for seed in (7, 8))

    assert (one != other) is counts


def scala(kind: str, **methods: Any) -> SimpleNamespace:
    """An object of the JVM with methods without arguments."""
    named = SimpleNamespace(getName=lambda: kind)
    made = {name: (lambda value=value: value) for name, value in methods.items()}
    return SimpleNamespace(getClass=lambda: named, **made)


class ScalaMap(SimpleNamespace):
    """A map of Scala."""

    def __init__(self, kind: str = "scala.collection.immutable.Map$Map2", **told: str) -> None:
        super().__init__()
        self._kind, self._told = kind, told

    def getClass(self) -> Any:
        return SimpleNamespace(getName=lambda: self._kind)

    def mkString(self, by: str) -> str:
        return by.join(f"{key} -> {value}" for key, value in self._told.items())


FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
JDBC = "org.apache.spark.sql.execution.datasources.jdbc.JDBCRelation"


def of_files(path: str = "/in", **options: str) -> Any:
    paths = SimpleNamespace(mkString=lambda _: path)
    form = SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: "JsonFileFormat"))
    location = SimpleNamespace(rootPaths=lambda: paths)
    return scala(FILES, location=location, fileFormat=form, options=ScalaMap(**options))


def of_jdbc(**parameters: str) -> Any:
    return scala(JDBC, jdbcOptions=SimpleNamespace(parameters=lambda: ScalaMap(**parameters)))


def table(relation: Any, name: str = "LogicalRelation", **fields: Any) -> Tree:
    """Return a table of a plan, whose relation only the JVM knows."""
    attribute = {"class": f"{EXPRESSIONS}AttributeReference", "num-children": 0, "nullable": True}
    output = [[{**attribute, "name": "rate", "dataType": fields.pop("type", "decimal(10,2)")}]]
    field = "relation" if name == "LogicalRelation" else "table"
    top = {"class": f"x.plans.logical.{name}", "num-children": 0, field: None, "output": output}
    tree = read_tree(json.dumps([{**top, **fields}]))
    jvm = SimpleNamespace(
        **{field: lambda: relation}, getClass=lambda: SimpleNamespace(getName=lambda: name)
    )
    return whole_tree(tree, Wording(hidden=Hidden(jvm).placed(tree)))


CSV = "country,rate\nNL,1\nBE,2\n"


@pytest.mark.parametrize(
    ("text", "options", "is_same"),
    [
        ("country,rate\nBE,2\nNL,1\n", {}, True),
        ("country,rate\nNL,1\nBE,3\n", {}, False),
        ("BE,2\nNL,1\ncountry,rate\n", {}, False),
        ("country,rate\nNL,1\nBE,2\nBE,2\n", {}, False),
        ("country,rate\nBE,2\nNL,1\n", {"multiLine": "true"}, False),
    ],
)
def test_the_rows_of_a_static_table_beside_the_script_count_in_any_order(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    options: dict[str, str],
    *,
    is_same: bool,
) -> None:
    script = SimpleNamespace(__file__=str(tmp_path / "main.py"))
    monkeypatch.setitem(sys.modules, "__main__", script)
    file = tmp_path / "rates" / "today.csv"
    file.parent.mkdir()
    relation = of_files(file.as_uri(), **options)

    file.write_text(CSV)
    old = reads_of(relation)
    file.write_text(text)
    new = reads_of(relation)

    assert old.keys() == new.keys() == {"table rates/today.csv"}
    assert (old == new) is is_same


def test_a_table_outside_of_the_scripts_folder_is_data_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = SimpleNamespace(__file__=str(tmp_path / "app" / "main.py"))
    monkeypatch.setitem(sys.modules, "__main__", script)
    (tmp_path / "rates.csv").write_text(CSV)

    assert reads_of(of_files((tmp_path / "rates.csv").as_uri())) == {}
    assert reads_of(of_files("s3://bucket/app/rates.csv")) == {}


def reads_of(relation: Any) -> dict[str, str]:
    """Return the inputs of a plan with one static table."""
    top = {"class": "x.plans.logical.LogicalRelation", "num-children": 0, "relation": None}
    tree = read_tree(json.dumps([{**top, "output": []}]))
    name = SimpleNamespace(getName=lambda: "LogicalRelation")
    hidden = Hidden(SimpleNamespace(relation=lambda: relation, getClass=lambda: name)).placed(tree)
    whole_tree(tree, Wording(hidden=hidden))
    return hidden.reads


SAVED = {"identifier": {"table": "rates"}, "provider": "parquet", "createTime": 1, "stats": {}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(table(of_files()), table(of_files(), type="decimal(10,1)"), id="scale"),
        pytest.param(table(of_files()), table(of_files(), type="double"), id="type"),
        pytest.param(table(of_files()), table(of_files("/else")), id="path"),
        pytest.param(table(of_files(mode="PERMISSIVE")), table(of_files()), id="option"),
        pytest.param(
            table(of_jdbc(url="jdbc:pg://a/x", dbtable="t")),
            table(of_jdbc(url="jdbc:pg://b/x", dbtable="t")),
            id="server",
        ),
        pytest.param(
            table(of_jdbc(dbtable="t", fetchsize="1")), table(of_jdbc(dbtable="u")), id="table"
        ),
        pytest.param(
            table(scala("x.IcebergTable", name="db.a"), "DataSourceV2Relation"),
            table(scala("x.IcebergTable", name="db.b"), "DataSourceV2Relation"),
            id="table of a catalog",
        ),
        pytest.param(
            table(of_files(), catalogTable=SAVED),
            table(of_files(), catalogTable={**SAVED, "provider": "orc"}),
            id="format of a saved table",
        ),
    ],
)
def test_another_table_is_another_tree(old: Tree, new: Tree) -> None:
    assert old != new


def test_a_table_is_the_same_when_its_catalog_counts_its_rows_anew() -> None:
    counted = {**SAVED, "createTime": 2, "stats": {"sizeInBytes": 9}}

    assert table(of_files(), catalogTable=SAVED) == table(of_files(), catalogTable=counted)


def test_the_login_of_a_table_is_not_told() -> None:
    told = text_of(table(of_jdbc(url="jdbc:pg://kim:hunter2@a/x", password="hunter2")))

    assert "hunter2" not in told
    assert "relation.url" in told


def test_a_map_is_told_entry_by_entry_and_a_text_with_columns_may_use_any() -> None:
    tree = read_tree(
        json.dumps([{"class": f"{EXPRESSIONS}JsonToStructs", "num-children": 0, "options": None}])
    )

    def worded(value: Any) -> Tree:
        jvm = SimpleNamespace(
            options=lambda: value, getClass=lambda: SimpleNamespace(getName=lambda: "JsonToStructs")
        )
        return tree_of(tree, Wording(hidden=Hidden(jvm).placed(tree)))

    assert text_of(worded(ScalaMap(mode="FAILFAST"))) == "json_to_structs(options.mode=FAILFAST)"
    hiding = worded(scala("x.Spec", toString="Spec(v#12L)"))
    assert used_in([hiding], [ColumnRef("v")]) is None
