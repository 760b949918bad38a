"""The sections of a spec as typed models, and the walk of plain data along them."""
