"""What others see of a run while it happens: lineage, metrics, traces. Off unless who runs the job asks for it."""
