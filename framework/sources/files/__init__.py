"""Sources that are files in a directory: what their formats share."""
