"""Where copies come from: any order of workers that want files, bring them, fail and go."""

from hypothesis import given
from hypothesis import strategies as st

from bbflow.lending.whereabouts import MOST_LOANS, Lender, Whereabouts

WORKERS, NAMES = 6, ("a", "b")
events = st.lists(st.tuples(st.integers(0, WORKERS - 1), st.sampled_from(NAMES), st.integers(0, 9)), max_size=60)


def lender_of(worker):
    return Lender(host="host", tcp=f"127.0.0.1:{1000 + worker // 2}")


class World:
    """The workers; two of them share a node."""

    def __init__(self):
        self.whereabouts = Whereabouts()
        self.turns, self.waiting = {}, {}
        self.having = {name: set() for name in NAMES}

    def tell(self, turns):
        for worker, lender in turns:
            name = self.waiting.pop(worker)
            assert lender is None or lender in self.having[name], "nobody is sent to where it never was"
            self.turns[worker] = (name, lender)

    def happen(self, worker, name, what):
        if worker in self.waiting:
            if what == 0:
                del self.waiting[worker]
                self.tell(self.whereabouts.left(worker))
        elif worker not in self.turns:
            self.waiting[worker] = name
            self.tell(self.whereabouts.want(worker, name))
        else:
            self.end(worker, what)

    def end(self, worker, what):
        name, lender = self.turns.pop(worker)
        if what == 0:
            self.tell(self.whereabouts.left(worker))
        elif what < 3:
            away = what == 1 and lender is not None
            for each in NAMES if away else [name]:
                self.having[each].discard(lender)
            self.tell(self.whereabouts.failed(worker, is_away=away))
        else:
            self.having[name].add(lender_of(worker))
            self.tell(self.whereabouts.have(worker, name, lender_of(worker)))

    def check(self):
        for name in NAMES:
            now = [lender for _, (which, lender) in self.turns.items() if which == name]
            assert now.count(None) <= 1, "a source is asked once at a time"
            assert all(now.count(each) <= MOST_LOANS for each in self.having[name])
            if name in self.waiting.values():
                assert now, "who waits, waits for someone"
                assert not self.having[name] or all(now.count(each) == MOST_LOANS for each in self.having[name])


@given(events)
def test_a_source_is_asked_once_nobody_lends_too_much_and_nobody_waits_for_nothing(events):
    world = World()
    for event in events:
        world.happen(*event)
        world.check()
    for _ in range(2 * WORKERS):  # from here on all goes well
        for worker in list(world.turns):
            world.end(worker, 9)
            world.check()
    assert not world.turns
    assert not world.waiting


def test_what_nobody_has_or_wants_any_more_is_forgotten():
    whereabouts = Whereabouts()
    assert list(whereabouts.want(1, "a")) == [(1, None)]
    assert not list(whereabouts.want(2, "a"))
    assert list(whereabouts.left(1)) == [(2, None)]
    assert not list(whereabouts.failed(2, is_away=False))
    assert not whereabouts._files
