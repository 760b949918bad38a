"""The first rows of a source as the job would see them, without the engine: what is accepted, what is rejected and why."""
