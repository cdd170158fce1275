import pytest

from bbflow.errors import NodeError, ProtocolError
from bbflow.net.contact import new_key
from bbflow.net.frames import decode_map, pack
from bbflow.net.handshake import NodeHandshake, WelcomeReply, parse_handshake, prove, shake_hands
from bbflow.reading.wire_types import VERSION

KEY = new_key()
NONCE = "00" * 16


def node(key=KEY):
    return NodeHandshake(key, WelcomeReply(name="bb0", host="here"))


def answer(side, message):
    """Return what a node answers, as its peer sees it, to a message as it comes out of its frame."""
    return decode_map(answer_bytes(side, message))


def answer_bytes(side, message):
    return pack(side.answer(parse_handshake(pack(message))))


def shaken(side):
    replies = []
    shake_hands(KEY, lambda message: replies.append(answer_bytes(side, message)), replies.pop)


def hello(**changes):
    return {"op": "hello", "versions": [VERSION, VERSION], "nonce": NONCE} | changes


def test_a_proof_is_the_hmac_that_rfc_4231_gives():
    # Test case 2: key "Jefe", data "what do ya want for nothing?".
    expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert prove(b"Jefe".hex(), "what do ", "ya want ", "for nothing?") == expected


def test_both_sides_that_know_the_key_let_each_other_in():
    side = node()
    shaken(side)
    assert side.done


def test_a_peer_with_another_key_is_refused():
    side = node()
    reply = answer(side, hello())
    wrong = prove(new_key(), "peer", NONCE, reply["nonce"])
    verdict = answer(side, {"op": "prove", "proof": wrong})
    assert verdict == {"ok": False, "error": "the peer doesn't know the contact file's key"}
    assert not side.done


def test_a_proof_that_was_overheard_is_no_use_on_another_connection():
    first, second = node(), node()
    overheard = prove(KEY, "peer", NONCE, answer(first, hello())["nonce"])
    answer(second, hello())
    assert not answer(second, {"op": "prove", "proof": overheard})["ok"]


def test_the_node_s_own_proof_sent_back_does_not_open_it():
    side = node()
    reply = answer(side, hello())
    assert not answer(side, {"op": "prove", "proof": reply["proof"]})["ok"]


def test_a_node_with_another_key_is_not_trusted():
    other = node(new_key())
    with pytest.raises(NodeError, match="doesn't know the contact file's key"):
        shaken(other)


@pytest.mark.parametrize("versions", [[1, 1], [VERSION + 1, VERSION + 4]])
def test_versions_without_a_common_one_are_both_named(versions):
    reply = answer(node(), hello(versions=versions))
    assert f"speaks versions {versions[0]} to {versions[1]} of the format, the node {VERSION}" in reply["error"]


def test_a_newer_peer_that_still_speaks_this_version_is_let_in():
    assert answer(node(), hello(versions=[1, VERSION + 3]))["version"] == VERSION


@pytest.mark.parametrize(
    "message",
    [
        {"op": "status"},
        {},
        {"op": "prove", "proof": "x"},
        hello(versions=2),
        hello(versions=[2]),
        hello(nonce=5),
        hello(nonce="00"),
    ],
)
def test_anything_else_first_is_no_handshake(message):
    with pytest.raises(ProtocolError):
        answer(node(), message)


def test_a_second_hello_is_no_handshake():
    side = node()
    answer(side, hello())
    with pytest.raises(ProtocolError):
        answer(side, hello())
