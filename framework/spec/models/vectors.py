"""What the section ``vectors`` of a spec may say."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from skyband.framework.base.units import WHOLE

VECTOR_TYPES: Final = ("array<float>", "array<double>")
"""Column types that vectors are made of."""

Dimension = Annotated[int, Field(ge=1, le=4096), WHOLE]
