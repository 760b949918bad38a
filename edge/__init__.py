"""The edge filter: a process that feeds a topic holds back rows that cannot change a result (docs/how-to/edge.md).

Imports the standard library alone, so that an edge needs neither Spark nor Arrow.
"""

from skyband.edge.errors import EdgeError
from skyband.edge.filter import EdgeFilter
from skyband.edge.message import Border, Message, Query, parse_message, write_message

__all__ = ["Border", "EdgeError", "EdgeFilter", "Message", "Query", "parse_message", "write_message"]
