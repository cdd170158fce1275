"""What the first step must have."""

import re

import pytest

from bbflow.configuring.config import parse_config
from bbflow.errors import ConfigError
from bbflow.transit.driver.first_step import check_variables


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("operators", {"operators": {"zz": ["mean"]}}),
        ("raw", {"raw": {"variables": ["tas", "zz"]}}),
        ("raw: keep_bits", {"raw": {"variables": ["tas"], "keep_bits": {"tas": 3, "zz": 3}}}),
    ],
)
def test_a_variable_that_is_not_there_is_named(where, keys):
    config = parse_config({"stream": "s", "operators": {"tas": ["mean"]}} | keys)
    with pytest.raises(ConfigError, match=re.escape(f"{where}: stream 's' has no variable 'zz' in its first step")):
        check_variables(config, ["tas", "pr"])
    check_variables(config, ["tas", "zz"])
