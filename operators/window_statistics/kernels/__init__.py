"""The kernels of statistics of a window, which work on the state of groups (``operators.groups.kernels``)."""
