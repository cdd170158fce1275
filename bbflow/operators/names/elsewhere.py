"""Names that are no operators here, but others': what says the same, or why nothing does."""

from collections.abc import Iterator, Mapping

from bbflow.errors import ConfigError
from bbflow.operators.names.indices import CROSSING
from bbflow.operators.names.other_tools import OTHER_TOOLS

_LEVELS = "space: {{levels: {{to: [85000, 50000], {}}}}}, docs/space.md#other-levels"
_HEIGHTS = _LEVELS.format("height: zg")
_REMAP = "space: {{{}: r360x180}}, docs/space.md#other-grids"
_REMAP_BY_FILE = "space: {remap: WEIGHTS.nc}, with weights from a file, docs/space.md#other-grids"
_ARITHMETIC = ("add", "sub", "mul", "div")
_ROWS = {"ymon": "month", "yday": "day of the year", "yhour": "hour of the year", "yseas": "season"}
_MEMBERS = "statistics across an ensemble's members: ensemble: operators, docs/ensembles.md"
_VARIABLES = "an expression of the variables: of: (t1 + t2 + t3) / 3"
_SELECTED = "the variables and the expressions that 'operators' names are selected"
_BY_INDEX = "space: {isel: {x: [0, 1, 2]}}"
_TWO_RUNS = "a second run, with the trend of the first one: of: tas - (a + b * t), docs/operators.md"
_SERIES = "all of a point's series is needed at once: keep the raw steps"
_MOMENTS = "there are no third and fourth moments over space"
_CELLS = "statistics of the source's cells in each target cell: 'coarsen' has them for boxes of points"


_SPANS = {"day": "day", "mon": "month", "year": "year"}


def _by_rows() -> Iterator[tuple[str, str]]:
    for prefix, span in _SPANS.items():
        for suffix in _ARITHMETIC:
            yield f"{prefix}{suffix}", f"of: tas - x, or + * /, and fields: {{x: {{file: FILE, by: {span}}}}}"
    for prefix, words in _ROWS.items():
        for suffix in _ARITHMETIC:
            yield f"{prefix}{suffix}", f"of: tas - clim, or + * /, and fields: {{clim: FILE}} with rows by {words}"


ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(
        ("ml2hl", "ml2hlx", "ap2hl", "ap2hlx", "gh2hl", "gh2hlx", "ml2height", "ml2heightx", "intlevelx",
         "intlevel3d", "intlevelx3d"),
        _HEIGHTS,
    ),
    **{name: f"{own}, whose runs end with the year; CDO's continue into the next one and count there"
       for name, own in CROSSING.items()},
    **dict.fromkeys(("dtr", "eca_dtr"), "of shorter steps or daily extremes: DTR"),
    **{f"remap{how}": _REMAP.format(f"remap{how}") for how in ("con", "nn", "bil", "dis", "bic", "laf")},
    **{f"remap{how}": _REMAP_BY_FILE for how in ("", "con2", "ycon", "scon")},
    **dict(_by_rows()),
    "anomaly": "of: tas - clim, fields: {clim: FILE}, as ymonsub",
    **{f"{over}avg": "the same with mean for avg, which is equal where nothing is missing"
       for over in ("fld", "zon", "mer", "vert", "gridbox", "glob", "box")},
    **{f"{over}{end}idx": f"arg{end}, which gives its time" for over in ("tim", "year") for end in ("max", "min")},
    **{f"ens{how}": _MEMBERS for how in ("mean", "avg", "min", "max", "range", "sum", "std", "std1", "var", "var1",
                                         "median", "pctl", "brs", "crps", "rkhisttime", "rkhistspace")},
    **{f"vars{how}": _VARIABLES for how in ("mean", "avg", "min", "max", "range", "sum", "std", "std1", "var", "var1")},
    **dict.fromkeys(("expr", "exprf", "aexpr", "aexprf"), "of: and an expression"),
    **dict.fromkeys(("ifthen", "ifnotthen", "ifthenc", "ifnotthenc", "ifthenelse", "setrtomiss", "setctomiss",
                     "setrtoc", "setrtoc2", "setmisstoc", "setvrange"), "of: where(c > 0, tas, nan)"),
    **dict.fromkeys(("mask", "masklonlatbox"), "space: {mask: land > 0.5}"),
    **dict.fromkeys(("maskregion", "selregion"), "means or sums over polygons: space: {regions: FILE.geojson}, "
                    "docs/space.md#regions"),
    **dict.fromkeys(("selname", "selvar", "selcode", "selparam", "selstdname", "select"), _SELECTED),
    **dict.fromkeys(("selmon", "selmonth", "selseas", "selseason"),
                    "the window {clim_season: JJA} (all years) or {season: JJA} (each year), or, of any months, "
                    "of: where(m > 3 and m < 9, tas, nan), fields: {m: {calendar: month}}"),
    "selhour": "of: where(h == 12, tas, nan), fields: {h: {calendar: hour}}",
    **dict.fromkeys(("selindexbox", "selindex", "selgridcell", "sellevidx"), _BY_INDEX),
    "consects": "longest_spell, spell_count, spell_steps", "consecsum": "longest_spell, spell_count, spell_steps",
    "regres": "trend, which is by time and not by step", "trend": "{trend: {intercept: true}}",
    **{f"eof{what}": "{eof: {modes: 5}}, whose patterns have the variances in them, docs/operators.md"
       for what in ("", "3d", "spatial", "time", "3dspatial", "3dtime")},
    **dict.fromkeys(("eofcoeff", "eofcoeff3d"), "a second run, with a file of each pattern: of: (tas - m) * e, "
                    "space: fldmean"),
    "detrend": f"detrended_std, detrended_var; or {_TWO_RUNS}",
    **dict.fromkeys(("subtrend", "addtrend"), _TWO_RUNS),
    **dict.fromkeys(("harmonic", "spectrum", "fourier"), "of given periods: {harmonics: {periods: [12.42, 24]}}"),
    "timrmsd": "of: a - b, operators: [rms]", "varrms": "of: (a - b)**2, space: fldmean, then: value**0.5",
    "fldrms": "of: (a - b)**2, space: fldmean, then: value**0.5",
    "fldcor": "space: {correlation: {with: tos, over: [lat, lon]}}",
    "fldcovar": "space: {covariance: {with: tos, over: [lat, lon]}}",
    "histcount": "{histogram: {edges: [0, 1, 10]}}", "histfreq": "histogram and count, one divided by the other",
    "fdns": "of: tn < 273.15 and snd < 0.01, operators: [sum], of daily steps",
    "timderivative": "deltat, divided by the time between two steps",
    **{f"gen{how}": f"space: {{remap{how}: r360x180}}, for which weights are made; or bbflow weights"
       for how in ("con", "nn", "bil", "dis", "bic", "laf")},
}  # fmt: skip
"""Name to what says it here."""
LACKING: Mapping[str, str] = {
    **dict.fromkeys(("timsort", "fourier2grid", "bandpass", "highpass", "lowpass"),
                    _SERIES),
    **{f"{over}{how}": _MOMENTS for over in ("fld", "zon", "mer", "gridbox") for how in ("skew", "kurt")},
    "gridboxmedian": "'coarsen' has no percentiles",
    **{f"remap{how}": _CELLS for how in ("avg", "mean", "median", "min", "max", "range", "sum", "std", "std1", "var",
                                         "var1", "skew", "kurt")},
    **dict.fromkeys(("ensskew", "enskurt", "ensroc"), "members have no such statistic"),
    **dict.fromkeys(("histsum", "histmean"), "a histogram counts; it keeps no sums of its bins' values"),
    **dict.fromkeys(("meandiff2test", "varquot2test"), "'mean', 'std' and 'count' are what the test needs"),
    **dict.fromkeys(("smooth", "smooth9"), "a point has no neighbours in other ranks' blocks: coarsen or remap"),
    **dict.fromkeys(("gencon2", "genycon", "genscon"),
                    "such files aren't written here: those of CDO and ESMF are read"),
    **dict.fromkeys(("remapeta", "remapeta_s", "remapeta_z"), "levels go to pressures or heights, not to hybrid ones"),
    "vertcumhl": "sums lie on the levels themselves: vertcum",
    "wct": "of two daily means, by their formula: an expression",
    "etccdi": "it has several indices at once: name them",
    **dict.fromkeys(("selcircle", "maskindexbox"), "give a mask of the stream, or of a file"),
    **dict.fromkeys(("seldate", "selday", "selyear", "seltime", "seltimestep", "seltimeidx", "selyearidx", "selsmon"),
                    "statistics are of all steps; windows cut them by dates"),
}  # fmt: skip
"""Name to why nothing here says it."""


def check_elsewhere(word: str, what: str) -> None:
    """Refuse a name of another tool that is none here, with what says the same.

    Parameters
    ----------
    word
        The name.
    what
        What it was taken for: an operator or a space.

    Raises
    ------
    ConfigError
        If it is such a name.
    """
    if word in ELSEWHERE:
        raise ConfigError(f"{word!r} isn't {what}: {ELSEWHERE[word]}")
    if word in LACKING:
        raise ConfigError(f"{word!r} can't be had here: {LACKING[word]}")
    for tool, names in OTHER_TOOLS.items():
        if word in names:
            raise ConfigError(f"{word!r} isn't {what}; for {tool}'s write {names[word]}")
