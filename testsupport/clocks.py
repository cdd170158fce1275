"""A clock that stands still until a test sets it."""


class Clock:
    def __init__(self, now_s=1000.0):
        self.now_s = now_s

    def __call__(self):
        return self.now_s

    def tick(self):
        self.now_s += 0.1
        return self.now_s
