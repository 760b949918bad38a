"""Live queries: requests that wait in the sink."""
