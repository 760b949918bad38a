"""A Spark session whose SQL only asks: statements that write, drop, make, set or load anything are refused before they run.

Spark ships no such mode. A rule that every statement passes once it is analysed, whoever sends it and however it is spelled, refuses all
commands but those that only show or describe (``ALLOWED``); what is unknown is refused. It is a few lines of Java, compiled by the
compiler that Spark itself uses for its queries, since a rule has to live in the engine.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from skyband.framework.errors import SkybandError
from skyband.framework.machine import one_line

ALLOWED: Final = (
    "DescribeColumn", "DescribeColumnCommand", "DescribeDatabaseCommand", "DescribeFunctionCommand", "DescribeNamespace",
    "DescribeQueryCommand", "DescribeRelation", "DescribeTableCommand", "ExplainCommand", "SetCatalogAndNamespace", "SetNamespaceCommand",
    "ShowCatalogsCommand", "ShowColumns", "ShowColumnsCommand", "ShowCreateTable", "ShowCreateTableCommand", "ShowCurrentNamespaceCommand",
    "ShowFunctionsCommand", "ShowNamespaces", "ShowNamespacesCommand", "ShowTableProperties", "ShowTablePropertiesCommand", "ShowTables",
    "ShowTablesCommand", "ShowViews", "ShowViewsCommand",
)  # fmt: skip
"""Spark's names of the commands that change nothing; ``SET`` without a value, which some drivers begin with, is one more."""
REFUSED: Final = "this server only answers queries: the tables are written by runs alone"
CALLS: Final = ("reflect", "java_method", "try_reflect")
"""Functions that call any method of the engine's by its name."""
KEPT_OFF: Final = ("spark.sql.runSQLOnFiles", "spark.sql.variable.substitute")
"""Settings that let a query read any file, or the environment: the engine has to start without them, and no connection brings them back."""

_RULE: Final = """
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.command.SetCommand;
import org.apache.spark.sql.internal.SQLConf;

public final class ReadOnly extends scala.runtime.AbstractFunction1 {
  public Object apply(Object session) {
    return new scala.runtime.AbstractFunction1() {
      public Object apply(Object plan) {
        String[] off = {%(off)s};
        for (int i = 0; i < off.length; i++) {
          if ("true".equalsIgnoreCase(SQLConf.get().getConfString(off[i], "true"))) {
            throw new UnsupportedOperationException(off[i] + " stays off here");
          }
        }
        look((LogicalPlan) plan);
        return scala.runtime.BoxedUnit.UNIT;
      }
    };
  }

  static boolean shows(LogicalPlan plan) {
    if (!(plan instanceof SetCommand)) {
      return false;
    }
    scala.Option given = ((SetCommand) plan).kv();
    return given.isEmpty() || ((scala.Option) ((scala.Tuple2) given.get())._2()).isEmpty();
  }

  static void look(LogicalPlan plan) {
    if (plan instanceof Command && !shows(plan)) {
      String name = plan.getClass().getSimpleName();
      if (!java.util.Arrays.asList(new String[] {%(allowed)s}).contains(name)) {
        throw new UnsupportedOperationException("%(refused)s (" + name + ")");
      }
    }
    scala.collection.Iterator children = plan.children().iterator();
    while (children.hasNext()) {
      look((LogicalPlan) children.next());
    }
  }
}
"""


def make_read_only(spark: SparkSession) -> None:
    """From now on every session that ``spark``'s engine opens only asks; ``spark`` itself stays as it is.

    Raises SkybandError SKY-E300 if the engine does not take the rule: then nothing may be served.
    """
    session: Any = spark
    jvm: Any = session._jvm
    source = _RULE % {"off": _texts(KEPT_OFF), "allowed": _texts(ALLOWED), "refused": REFUSED}
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(source)
        made = compiler.getClassLoader().loadClass("ReadOnly").getDeclaredConstructor(_none(session, "Class"))
        rule = made.newInstance(_none(session, "Object"))
        session._jsparkSession.extensions().injectCheckRule(rule)
        builtin = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
        for name in CALLS:
            builtin.dropFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))
    except Exception as e:
        raise SkybandError(
            "SKY-E300", f"the engine cannot be made to answer queries only: {one_line(e)[:300]}", hint="is it Spark 4.2?"
        ) from e


def _none(session: Any, kind: str) -> Any:
    gateway = session.sparkContext._gateway
    return gateway.new_array(getattr(gateway.jvm.java.lang, kind), 0)


def _texts(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{n}"' for n in names)
