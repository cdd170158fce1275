"""Seeded damage to bytes and to messages: the same seed gives the same damage."""

import copy

INTERESTING = (
    None, True, False, 0, 1, -1, 63, 4096, 1 << 31, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 1 << 20, 0.0, -0.5,
    float("nan"), float("inf"), "", "open", "weather", "x" * 300, "\x00", b"", b"\xff" * 8, [], [0], [[0, 4096]],
    [[-4096, 8192]], [[0, 1]], [None], {}, {"step": 0}, [{}],
)  # fmt: skip
"""Values that a message may hold where it shouldn't."""


def damage_bytes(random, data):
    """Flip, cut, double or overwrite some bytes."""
    data = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data) + 1)
        match random.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 1 if at < len(data):
                data[at] = random.randrange(256)
            case 2:
                del data[at:]
            case 3:
                del data[at : at + random.randint(1, 8)]
            case 4:
                data[at:at] = random.randbytes(random.randint(1, 8))
            case 5:
                data[at:at] = data[at : at + random.randint(1, 64)]
    return bytes(data)


def damage_message(random, message):
    """Replace, remove or double some values of a message, however deep they lie."""
    message = copy.deepcopy(message)
    for _ in range(random.randint(1, 3)):
        places = list(_places(message))
        if not places:
            break
        holder, key = random.choice(places)
        match random.randrange(4):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 2 if isinstance(holder[key], int):
                holder[key] += random.choice((-4096, -1, 1, 64, 4096))
            case _:
                holder[key] = copy.deepcopy(random.choice(INTERESTING))
    return message


def _places(value):
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])
