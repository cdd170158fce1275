"""Gates of delay policies, as they are made: so that a test can wait until a transfer waits, instead of a while."""

from bbflow.staging import Gate


def gates_made(monkeypatch):
    """Return the list that all gates of this process come into from now on."""
    made, begin = [], Gate.__init__

    def begin_and_note(gate, *args, **kwargs):
        begin(gate, *args, **kwargs)
        made.append(gate)

    monkeypatch.setattr(Gate, "__init__", begin_and_note)
    return made


def is_waiting(gates):
    """Whether a transfer waits at one of them."""
    return any(gate.waiting for gate in gates)
