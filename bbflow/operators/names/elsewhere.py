"""Names that people look for among the operators, and where what they mean is said."""

from collections.abc import Mapping

_LEVELS = "space: {{levels: {{to: [85000, 50000], {}}}}}, docs/space.md#other-levels"
_PRESSURES = _LEVELS.format("pressure: {a: hyam, b: hybm, surface: ps}, above: linear")
_HEIGHTS = _LEVELS.format("height: zg")
_RANGE = "of shorter steps or daily extremes: DTR"
_REMAP = "space: {{{}: r360x180}}, docs/space.md#other-grids"
_REMAP_BY_FILE = "space: {remap: WEIGHTS.nc}, with weights from a file, docs/space.md#other-grids"

ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("ml2pl", "ml2plx", "ap2pl", "ap2plx"), _PRESSURES),
    **dict.fromkeys(("ml2hl", "ml2hlx", "ap2hl", "ap2hlx", "gh2hl", "intlevel", "intlevel3d"), _HEIGHTS),
    **dict.fromkeys(("dtr", "eca_dtr"), _RANGE),
    **{f"remap{how}": _REMAP.format(f"remap{how}") for how in ("con", "nn")},
    **{f"remap{how}": _REMAP_BY_FILE for how in ("bil", "bic", "dis", "con2", "ycon", "laf")},
}
"""Name to what says it here."""
