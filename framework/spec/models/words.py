"""What a word of a text is if ``tokens`` does not say so. Python workers import this module: it imports none that takes long to load."""

from __future__ import annotations

from typing import Final

WORDS: Final = r"[\pL\pN_][\pL\pM\pN_]*"
"""Letters, digits and underscores of any script, with the combining marks that follow them."""

FORMER_WORDS: Final = r"[\pL\pN_]+"
"""The default of former versions, which cut words at their combining marks (``plan.former``)."""
