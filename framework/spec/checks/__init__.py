"""Checks of a spec beyond the shape of its fields: names, SQL, windows, paths, collisions."""
