"""The results of queries as streams for further queries, inside a bucket."""
