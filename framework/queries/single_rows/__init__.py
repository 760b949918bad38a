"""What query types over scored single rows share: lists of queries (``queries_from``), nodes of expressions, brute force.

Not a room of its own: the types are in theirs.
"""
