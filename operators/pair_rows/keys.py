"""Where keys stand in the checkpoint of a K-skyband of pairs, whatever finds the candidates."""

from __future__ import annotations

from typing import Final

from skyband.operators.state_keys import Group, Named, StateKeys

PAIR_ROWS: Final = StateKeys(
    each={"next": 0, "step": 1, "wake": 1, "due": 1, "shown": 1, "shown_score": 0, "shown_older": 0, "shown_newer": 0},
    groups=(Group(Named("sky_key"), {"sky_score": 0, "sky_older": 0, "sky_newer": 0, "sky_stair": 0}),),
)
