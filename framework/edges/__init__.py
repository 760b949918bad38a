"""The server's side of the edge filter (``skyband.edge``)."""
