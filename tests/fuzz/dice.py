"""Choices out of a fuzzer's bytes, and messages with wrong fields."""

ODD = [
    None, True, -1, 0, 1, 7, 4095, 4096, 1 << 31, 1 << 63, (1 << 64) - 1, -(1 << 63), 0.5, -1.0, float("nan"),
    float("inf"), "", "weather", "x" * 300, b"", b"\xff", [], [[]], [1], ["a"], [0, 4096], [[0, 4096]], [[1, 2]],
    [[-4096, 4096]], [[1 << 40, 4096]], {}, {"name": 1}, [{}], [{"name": "v", "type": "char", "kind": "LocalArray"}],
]  # fmt: skip
"""Values that no field should take, or not this one."""


class Dice:
    """Throws what the bytes say; zeros when they are used up."""

    def __init__(self, data):
        self._data = data
        self._at = 0

    def __bool__(self):
        return self._at < len(self._data)

    def throw(self, sides):
        """Return a number below `sides`, at most 256."""
        self._at += 1
        return self._data[self._at - 1] % sides if self._at <= len(self._data) else 0

    def of(self, choices):
        return choices[self.throw(len(choices))]

    def mutate(self, message):
        """Return a message with, now and then, a field that is wrong or missing."""
        message = dict(message)
        if self.throw(3) == 0 and message:
            key = self.of(sorted(message))
            if self.throw(5) == 0:
                del message[key]
            else:
                message[key] = self.inner(message[key])
        return message

    def inner(self, value):
        """Return an odd value, or a value with an odd one inside."""
        if self.throw(2) and isinstance(value, list) and value:
            at = self.throw(len(value))
            return [*value[:at], self.inner(value[at]), *value[at + 1 :]]
        if self.throw(2) and isinstance(value, dict) and value:
            return self.mutate(value) | {self.of(sorted(value)): self.of(ODD)}
        return self.of(ODD)
