"""Damaged inputs for each target, made from a seed; with atheris the seed comes from its bytes."""

import random as randoms

import targets
from mutations import damage_bytes, damage_message

from bbflow.store.frames import encode

RECORDS = targets.index_of_a_run()


def _encoded(messages):
    return b"".join(encode(message) for message in messages)


def frames(random):
    """Damage to a stream of frames."""
    targets.read_frames(damage_bytes(random, _encoded(message for _, message in targets.CONVERSATION[:5])))


def payload(random):
    """Damage inside a frame whose checksum is right."""
    try:
        whole = encode(damage_message(random, targets.COMMIT))
    except (OverflowError, ValueError):
        return
    targets.read_frames(whole)


def handshake(random):
    """Damage to a handshake."""
    targets.shake_hands([damage_message(random, targets.HELLO), targets.HELLO, damage_message(random, targets.PROVE)])


def data(random):
    """Damage to the announcement of raw bytes."""
    targets.announce_data(damage_message(random, targets.DATA))


def conversation(random):
    """Damage to one or two messages of a run, and messages that are left out, doubled or of the wrong peer."""
    said = list(targets.CONVERSATION)
    for _ in range(random.randint(1, 2)):
        at = random.randrange(len(said))
        peer, message = said[at]
        match random.randrange(6):
            case 0:
                del said[at]
            case 1:
                said.insert(at, said[at])
            case 2:
                said[at] = (random.choice((targets.WRITER, targets.READER, 7)), message)
            case _:
                said[at] = (peer, damage_message(random, message))
    targets.talk_to_an_agent(said)


def index(random):
    """Damage to an index: bytes, or records whose checksums are right."""
    if random.random() < 0.5:
        targets.read_index(damage_bytes(random, _encoded(RECORDS)))
        return
    records = list(RECORDS)
    at = random.randrange(len(records))
    records[at] = damage_message(random, records[at])
    targets.read_index(_encoded(records))


ALL = {"frames": frames, "payload": payload, "handshake": handshake, "data": data, "conversation": conversation}
ALL |= {"index": index}


def run(name, seed):
    """Run one target with one seed."""
    ALL[name](randoms.Random(seed))
