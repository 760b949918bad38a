"""Why an item is, was or never was in a result: its stays from the tables, and where these say nothing, brute force over the source."""
