"""The default regular expressions for words. Python workers import this module, so it imports nothing heavy."""

from __future__ import annotations

from typing import Final

WORDS: Final = r"[\pL\pN_][\pL\pM\pN_]*"
"""Letters, digits and underscores of any script, with the combining marks that follow them."""

FORMER_WORDS: Final = r"[\pL\pN_]+"
"""The default of former versions, which split words at combining marks (``plan.former``)."""
