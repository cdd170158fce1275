"""Names of NCL, xclim, Ferret and ESMValTool that are no operators here: what says the same."""

from collections.abc import Mapping

_CLIMATOLOGY = "of: tas - clim, fields: {clim: FILE}, docs/space.md#fields-of-files"
_GRIDS = "space: {remapbil: r360x180}, or another remap, docs/space.md#other-grids"
_LEVELS = "space: {levels: {to: [85000, 50000]}}, docs/space.md#other-levels"
_WHERE = "of: where(c, a, b)"

OTHER_TOOLS: Mapping[str, Mapping[str, str]] = {
    "NCL": {
        "dim_avg_n": "timmean; over longitudes zonmean",
        "dim_stddev_n": "timstd1",
        "dim_variance_n": "timvar1",
        "stat4": "mean, {var: {ddof: 1}}, skewness, kurtosis",
        "clmMonTLL": "ymonmean",
        "clmDayTLL": "ydaymean",
        "calcMonAnomTLL": _CLIMATOLOGY,
        "month_to_season": "seasmean",
        "month_to_annual": "yearmean",
        "calculate_monthly_values": "monmean",
        **dict.fromkeys(("runave_n", "wgt_runave_n"), '"runmean,5", of equal weights'),
        "escorc": "{correlation: {with: psl}}",
        "escovc": "{covariance: {with: psl}}",
        "regCoef": "trend: {intercept: true}",
        "dtrend_n": "detrended_std",
        "eofunc_n": "eof",
        **dict.fromkeys(("specx_anal", "ezfftf_n"), "harmonics; over longitudes space: {wavenumbers: {over: lon}}"),
        "pdfx": "histogram",
        "pdfxy": "joint_histogram",
        "wgt_areaave": "fldmean",
        "wgt_areasum2": "fldint",
        "vibeta": "vertint",
        "wgt_vertical_n": "vertmean",
        **dict.fromkeys(("linint2", "ESMF_regrid"), _GRIDS),
        **dict.fromkeys(("int2p_n", "vinth2p"), _LEVELS),
        "dim_spi_n": "monmean of pr (SPEI: pr - evspsblpot), and of that xclim's "
        "standardized_precipitation_index(…, freq=None)",
        "{lat|-30:30}": "space: {box: {lat: [-30, 30]}}",
    },
    "xclim": {
        "growing_season_length": "GSL, CDO's: its first days are above 5 degC and before July; xclim's may be of 5 "
        "degC and cross 1 July",
    },
    "Ferret": {
        "[L=@AVE]": "timmean",
        "[GT=…@MOD]": "ymonmean",
        "@SBX": '"runmean,5"',
        "eof_space": "eof",
        **dict.fromkeys(("ffta", "fftp"), "harmonics"),
        "frequency_histogram.jnl": "histogram",
        "[X=@AVE,Y=@AVE]": "fldmean",
        "[X=@AVE]": "zonmean",
        "[Z=@DIN]": "vertint",
        "ZAXREPLACE": _LEVELS,
        "[Y=30S:30N]": "space: {box: {lat: [-30, 30]}}",
        "IF … THEN": _WHERE,
    },
    "ESMValTool": {
        "climate_statistics": "timmean, timstd1, …; of each month ymonmean, of each day ydaymean",
        "anomalies": _CLIMATOLOGY,
        "seasonal_statistics": "seasmean",
        "extract_season": "windows: [{season: JJA}]",
        "annual_statistics": "yearmean",
        "monthly_statistics": "monmean",
        "daily_statistics": "daymean",
        "linear_trend": "trend: {intercept: true}",
        "area_statistics": "fldmean",
        "zonal_statistics": "zonmean",
        "axis_statistics": "vertint, vertmean",
        "regrid": _GRIDS,
        "extract_levels": _LEVELS,
        "extract_region": "space: {box: {lat: [-30, 30], lon: [350, 20]}}",
        "mask_landsea": "space: {mask: land > 0.5}",
        "mask_above_threshold": "of: where(tas <= 300, tas, nan)",
    },
}
"""For each tool what to write for its names."""
