import hashlib
import hmac
import random
import subprocess

from bbflow.net.frames import CHECKSUM
from bbflow.net.seals import seals

SHA256 = {  # FIPS 180-4's examples
    b"": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    b"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": (
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
}
HMAC = {  # RFC 4231, cases 1, 2 and 6
    (b"\x0b" * 20, b"Hi There"): "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
    (b"Jefe", b"what do ya want for nothing?"): "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    (b"\xaa" * 131, b"Test Using Larger Than Block-Size Key - Hash Key First"): (
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
    ),
}


CRC32C = {  # RFC 3720, B.4
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
}


def digests(programs, pairs):
    """Digests by the engine; a key of None asks for the plain hash."""
    arguments = [item for key, text in pairs for item in ("-" if key is None else key.hex(), text.hex())]
    done = subprocess.run([programs / "digest", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_hash_and_the_proof_are_those_of_the_standards(programs):
    assert digests(programs, [(None, text) for text in SHA256]) == list(SHA256.values())
    assert digests(programs, list(HMAC)) == list(HMAC.values())


def test_texts_of_every_length_around_a_block_hash_as_in_python(programs):
    source = random.Random(1)
    texts = [source.randbytes(n) for n in range(200)]
    assert digests(programs, [(None, text) for text in texts]) == [hashlib.sha256(text).hexdigest() for text in texts]
    keys = [source.randbytes(n) for n in range(1, 140)]
    expected = [hmac.new(key, key[::-1], "sha256").hexdigest() for key in keys]
    assert digests(programs, [(key, key[::-1]) for key in keys]) == expected


def checksums(programs, texts):
    """CRC-32C by the engine: with the CPU's instruction where there is one, and without."""
    arguments = [item for text in texts for item in ("crc", text.hex())]
    done = subprocess.run([programs / "digest", *arguments], capture_output=True, text=True, check=True)
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]


def test_the_checksum_is_that_of_the_standard_and_of_the_node(programs):
    assert checksums(programs, list(CRC32C)) == [(crc, crc) for crc in CRC32C.values()]
    # Above three pages the instruction runs in three lanes; one argument must stay below 128 KiB.
    texts = [random.Random(n).randbytes(n) for n in (1, 7, 8, 9, 4096, 12287, 12288, 12289, 24577, 60001)]
    expected = [int.from_bytes(CHECKSUM.of_raw(memoryview(text)), "little") for text in texts]
    assert checksums(programs, texts) == [(crc, crc) for crc in expected]


def test_a_frame_and_raw_bytes_have_the_seals_that_the_node_expects(programs):
    key, nonces = "ab" * 32, ("0" * 32, "f" * 32)
    texts = [random.Random(n).randbytes(n) for n in (0, 1, 15, 16, 17, 4096, 60001)]
    peer, node = seals(key, *nonces)
    expected = [seal.of_frame(text) + seal.of_raw(text) for text in texts for seal in (peer, node)]
    arguments = [item for text in texts for side in ("peer", "node") for item in (side, text.hex())]
    command = [programs / "digest", "seals", "".join(nonces), *arguments]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.split() == [tag.hex() for tag in expected]
