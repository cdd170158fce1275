"""How a writing rank stands with its steps and its node, for any order of events, without processes."""

import subprocess

import pytest

OPEN = "want admit:0:ok"
BEHIND = f"{OPEN} commit:64 end"
"""Step 0 is committed, and no reply has followed yet."""
AHEAD = f"{OPEN} commit:64:ahead end"
"""And the next one was asked for."""
CASES = {
    "a step is asked for once, however often its rank looks": ("want want", "ask wait settled=-1"),
    "it is asked for again after a break": ("want restore:-1:same-pool:same-room want", "ask nothing ask settled=-1"),
    "it is asked for again after a refusal": ("want refused want", "ask - ask settled=-1"),
    "also where an offer was asked for": (f"{AHEAD} next refused next want", "offer - none ask settled=0"),
    "a commit that the node lacks is sent again": (
        f"{BEHIND} restore:-1:same-pool:other-room",
        "send-commit,nothing settled=0",
    ),
    "one that it has isn't": (f"{BEHIND} restore:0:same-pool:other-room", "nothing settled=0"),
    "nor is one that a reply has followed": (
        f"{BEHIND} want admit:1:ok restore:-1:same-pool:same-room",
        "resume settled=0",
    ),
    "nor is one of a node that was lost": (f"{BEHIND} restore:-1:new-pool:other-room", "new-node,nothing settled=0"),
    "nor is one that an offer has followed": (
        f"{AHEAD} offered restore:-1:same-pool:same-room",
        "nothing settled=0",
    ),
    "an offer is waited for until it comes": (
        f"{AHEAD} next offered next",
        "offer - none settled=0",
    ),
    "none is, unless it was asked for": (f"{BEHIND} next", "none settled=0"),
    "but not over a new connection": (
        f"{AHEAD} restore:0:same-pool:same-room next want",
        "nothing none ask settled=0",
    ),
    "an open step goes on where its places are": (f"{OPEN} restore:-1:same-pool:same-room", "resume settled=-1"),
    "it lands again where they are another's": (
        f"{OPEN} restore:-1:same-pool:other-room",
        "land-again settled=-1 begins",
    ),
    "and on a new node, whatever that grants": (
        f"{OPEN} restore:-1:new-pool:same-room",
        "new-node,land-again settled=-1 begins",
    ),
    "until it was begun again": (f"{OPEN} restore:-1:new-pool:other-room begin-again:ok", "- settled=-1"),
    "a second break doesn't forget that": (
        f"{OPEN} restore:-1:new-pool:other-room restore:-1:same-pool:same-room",
        "resume settled=-1 begins",
    ),
    "a step that was skipped without a reply is dropped": (
        f"{OPEN} restore:0:same-pool:same-room",
        "drop settled=0 dropped",
    ),
    "a discarded step is behind its rank at once": (
        "want admit:0:discard restore:0:same-pool:other-room",
        "nothing settled=0 dropped",
    ),
    "it ends like any other": ("want admit:0:discard end want admit:1:spill", "- settled=0 spills"),
    "a step may be discarded when it is begun again": (
        f"{OPEN} restore:-1:new-pool:other-room begin-again:discard",
        "- settled=0 dropped",
    ),
}


@pytest.mark.parametrize(("events", "expected"), CASES.values(), ids=CASES)
def test_what_is_to_be_done(programs, events, expected):
    said = subprocess.run([programs / "course", *events.split()], check=True, capture_output=True, text=True).stdout
    assert said.strip().endswith(expected)
