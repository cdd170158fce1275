"""CDO's statistical operators are all on the page, and what it says of them is so."""

import re
import shutil
import subprocess

import pytest
import yaml

from bbflow.configuring.config import parse_config
from bbflow.errors import ConfigError
from bbflow.operators import parse_operators
from bbflow.operators.catalogue import KINDS
from bbflow.operators.names.cdo_index import index
from bbflow.operators.names.elsewhere import ELSEWHERE, LACKING
from bbflow.operators.names.known import NAMES
from bbflow.operators.names.other_tools import OTHER_TOOLS

OVER = (
    "tim|timsel|hour|day|mon|seas|seasmon|year|yearmon|dhour|yhour|yday|ymon|yseas|ydrun|run|fld|zon|mer|vert|glob|"
    "box|gridbox|ens|vars|remap"
)
HOW = (
    "mean|avg|sum|min|max|range|std|std1|var|var1|count|pctl|median|skew|kurt|rms|rmsd|int|cor|covar|cum|cumsum|cumhl|"
    "maxidx|minidx|sort|derivative|add|sub|mul|div|brs|crps|roc|rkhisttime|rkhistspace"
)
OTHERS = (
    "eca_.*|etccdi.*|eof.*|hist(count|sum|mean|freq)|consec.*|trend|detrend|regres|subtrend|addtrend|deltat|fourier|"
    "harmonic|bandpass|highpass|lowpass|spectrum|meandiff2test|varquot2test|strwin|strbre|strgal|hurr|fdns|wct|"
    "smooth9?|varrms|anomaly|remap(con2?|bil|bic|nn|dis|laf|ycon|scon)?|sel(lonlatbox|level|mon|seas|name|hour|year)"
)
STATISTICAL = re.compile(f"({OVER})({HOW})|{OTHERS}")


def test_each_name_is_in_the_index_once():
    named = re.findall(r"`([\w,]+)`", "\n".join(row.partition("`: ")[0] + "`" for row in index().splitlines()))
    assert [name for name in (*ELSEWHERE, *LACKING) if named.count(name) != 1] == []


@pytest.mark.skipif(shutil.which("cdo") is None, reason="needs the program cdo (Debian's package of that name)")
def test_every_statistical_operator_of_cdo_is_named_or_said_not_to_be_there():
    listed = subprocess.run(["cdo", "--operators"], capture_output=True, text=True, timeout=60).stdout.splitlines()
    theirs = {line.split()[0] for line in listed if line.strip()}
    wanted = {name for name in theirs if STATISTICAL.fullmatch(name)}
    assert len(wanted) > 350
    assert sorted(wanted - NAMES.keys() - ELSEWHERE.keys() - LACKING.keys()) == []
    assert sorted((LACKING.keys() | ELSEWHERE.keys()) - theirs - {"dtr", "eca_dtr", "timderivative"}) == []


def test_a_name_is_on_one_list():
    assert not ELSEWHERE.keys() & LACKING.keys()
    assert not NAMES.keys() & (ELSEWHERE.keys() | LACKING.keys())
    for names in OTHER_TOOLS.values():
        assert not names.keys() & (NAMES.keys() | ELSEWHERE.keys() | LACKING.keys() | KINDS.keys())


@pytest.mark.parametrize("told", sorted({told for names in OTHER_TOOLS.values() for told in names.values()}))
def test_what_is_written_for_other_tools_is_there(told):
    if told.startswith(("space:", "windows:")):
        keys = yaml.safe_load("{" + told.partition(", or ")[0].partition(", docs")[0] + "}")
        assert parse_config({"stream": "s", "operators": {"x": {"of": "tas", "operators": ["mean"]} | keys}})
    elif not told.startswith("of:"):
        assert re.search(r"\w+", told)[0] in NAMES | KINDS


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ymonsub", "isn't an operator: of: tas - clim"),
        ("smooth9", "can't be had here"),
        ("clmMonTLL", "isn't an operator; for NCL's write ymonmean"),
        ("climate_statistics", "isn't an operator; for ESMValTool's write timmean, timstd1"),
    ],
)
def test_what_isnt_by_name_is_told_where_it_is_written(name, told):
    with pytest.raises(ConfigError, match=told):
        parse_operators([name])
