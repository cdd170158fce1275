"""What counts after a driver died between the commits to two nodes."""

import cftime
import pytest

from bbflow.config import parse_config
from bbflow.operators.windows import parse_windows
from bbflow.transit.folding.batches import Batch
from bbflow.transit.folding.bookkeeping import Folding
from bbflow.transit.folding.shards import ShardKey, ShardState

CONFIG = {"stream": "s", "operators": {"tas": {"operators": ["mean"], "windows": ["month", "run"]}}}
WINDOWS = parse_windows(["month", "run"])


def keys_of(day):
    date = cftime.num2date(day, "days since 2000-01-01", "noleap")
    return {window.name: window.key(date, 0) for window in WINDOWS}


def checkpoint(node, last_day):
    """What a node keeps of a fold whose last step, one a day, was this one."""
    folding = Folding(parse_config(CONFIG), {node: (-1, b"")})
    days = range(last_day + 1)
    folding.timeline.take([float(day) for day in days], keys_of(0), 0)
    folding.timeline.take([float(last_day)], keys_of(last_day), 0)
    key = ShardKey(node, "tas", (0,), (4,))
    folding.states[key] = ShardState(key, (0,), (4,), "<f8", last_day, float(last_day), keys_of(last_day))
    return folding.checkpoint(node)


@pytest.mark.parametrize(("behind", "ahead", "published"), [(30, 31, True), (30, 30, False), (29, 30, False)])
def test_a_span_that_a_node_has_gone_beyond_isnt_published_again(behind, ahead, published):
    cursors = {"a": (behind, checkpoint("a", behind)), "b": (ahead, checkpoint("b", ahead))}
    folding = Folding(parse_config(CONFIG), cursors)
    assert folding.cursor == behind
    batch = Batch((31,), (31.0,), keys_of(31), 31)
    month, *others = folding.timeline.closing(batch.keys)
    assert (month.window.name, others) == ("month", [])
    assert folding.was_published(month) is published
