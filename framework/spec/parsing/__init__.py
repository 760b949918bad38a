"""From the text of a spec to plain data: YAML with positions, includes, profiles, parameters and environment variables."""
