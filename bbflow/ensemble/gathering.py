"""The ensemble's own analysis: turn by turn it takes what members have shown, folds it, and shows moments."""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import msgspec

from bbflow.ensemble.common_grid import CommonGrid
from bbflow.ensemble.deciding import Deciding
from bbflow.ensemble.ensemble_settings import EnsembleAnalysis, run_of, split_run
from bbflow.ensemble.folding import Contribution, WindowStates, finished, fold, states_of
from bbflow.ensemble.followed import Begin, Followed
from bbflow.ensemble.member_stores import MemberStore, Row
from bbflow.ensemble.moment_files import Ledger, MomentFiles
from bbflow.ensemble.places import GRID, RESULTS, STORE, EnsemblePlaces
from bbflow.ensemble.roster import Member, MemberRoster, Standing
from bbflow.ensemble.store import EnsembleStore, MomentShown
from bbflow.ensemble.verifying import Verifying
from bbflow.errors import BbflowError, ConfigError
from bbflow.operators.steps import Array
from bbflow.operators.windows.calendars import Clock
from bbflow.operators.windows.spans import Run
from bbflow.transit.output.lost_files import LOST

FOREVER = 1 << 61
"""End of the whole run (microseconds)."""
HOUR_US = 3.6e9
"""Lead times are in hours."""
TURN_BYTES = 256 << 20
"""About how much is read of members in one turn: it stays in memory until it is folded."""
MOST_SAID = 20
"""Sentences that are kept for those who ask how the ensemble is."""
ENDED_AT_ONCE = 16
"""No analysis is begun while those of so many ended members still run: where members write faster than
they are analysed, the nodes' room holds them up, and memory doesn't grow with their number."""


class EnsembleFold:
    """Takes members in, until all are over.

    Parameters
    ----------
    analysis
        What is computed.
    begin
        Begins members' analyses; None if others do.
    say
        Gets what the user should read.
    """

    def __init__(self, analysis: EnsembleAnalysis, begin: Begin | None, say: Callable[[str], None]) -> None:
        self._analysis, self._begin = analysis, begin
        self.said = deque[str](maxlen=MOST_SAID)
        """What the user should read, the last of it."""

        def told(text: str) -> None:
            self.said.append(text)
            say(text)

        self._say = told
        self._output = analysis.output
        self.places = EnsemblePlaces.of(analysis)
        self.places.make()
        self.roster = MemberRoster(self._output)
        self._grid = CommonGrid.load(self._output / GRID)
        ensemble = analysis.ensemble
        self.moments = MomentFiles(self.places.fast, ensemble.states.capacity, self.places.slow)
        inner = {field.inner.name: field.inner for field in analysis.fields}
        results = {
            name: field.inner.name for field in analysis.fields for name in (field.result, *field.others.values())
        }
        self._inner = inner
        self._members = {
            name: Followed(MemberStore(name, analysis.output_of(name) / RESULTS, inner, results), Member(name=name))
            for name in ensemble.runs
        }
        self._units = self._taken_together()
        self._leads: dict[str, int] = {}
        """Start to its time (microseconds)."""
        self._states: dict[str, WindowStates] = {}
        self._store: EnsembleStore | None = None
        self._verifying: Verifying | None = None
        self._ends = self._asks = False
        self._behind = 0
        decide = ensemble.decide
        self._deciding = None if decide is None else Deciding(decide, self._output / STORE, told)
        if self._grid is not None:
            self._open(self._grid)

    def _open(self, grid: CommonGrid) -> None:
        self._states = states_of(self._analysis, grid)
        ensemble = self._analysis.ensemble
        self._leads = {start: grid.start(start) for start in ensemble.starts}
        closed = any(ledger.closed for ledger in self.moments.ledgers.values())
        told = self._output / STORE, ensemble.name, ensemble.members, grid, self._leads
        self._store = EnsembleStore(*told, is_continued=closed)
        self._verifying = Verifying(grid, self._store, self._truth, self._say)

    def _taken_together(self) -> list[list[str]]:
        """Return the runs whose times are taken together: the groups of a design, else each by itself."""
        ensemble, units = self._analysis.ensemble, dict[tuple[str, object], list[str]]()
        for name in ensemble.runs:
            start, member = split_run(name)
            place = ensemble.sobol.places.get(member) if ensemble.sobol is not None else None
            units.setdefault((start, name if place is None else place[0]), []).append(name)
        return list(units.values())

    @property
    def progress(self) -> dict[str, tuple[Member, int]]:
        """How all members are, and how many of their times are folded."""
        return {name: (followed.member, max(followed.store.next.values())) for name, followed in self._members.items()}

    @property
    def complete_moments(self) -> dict[str, int]:
        """How many moments of each window all members have passed."""
        if self._store is None:
            return {}
        return {name: self._store.complete(states) for name, states in self._states.items()}

    def end(self) -> None:
        """Wait for no member any more: those that aren't done are lost."""
        self._ends = True

    def turn(self) -> bool:
        """Take what is new; return whether there was anything."""
        self._look_at_members()
        if self._analysis.ensemble.lost == "out":
            self._take_out()
        given, taken = self._gather()
        # The oldest first: they can be shown, and their states freed, the soonest.
        for name in sorted(given, key=lambda name: given[name][0].begin):
            ledger, contributions = given[name]
            if not self._refuses(ledger, contributions):
                fold(self.moments, self._states[ledger.window], ledger, contributions)
        for followed, window, through in taken:
            followed.store.take(window, through)
            if not self._analysis.ensemble.keep and not self._is_truth(followed.store.member):
                # Only here, when all that was given is folded and its ledgers are on the file system.
                followed.store.let_go(window, through)
        for name, followed in self._members.items():
            self._forget(name, followed)
        shown = self._show()
        self._asks |= shown
        self._decide()
        return bool(given) or shown

    def _decide(self) -> None:
        """Ask the user's function whether there is enough, whenever something was shown, and obey its last answer."""
        if self._deciding is None or self._ends:
            return
        if (decision := self._deciding.answer()) is not None:
            changed = False
            for name, followed in self._decided_on().items():
                standing = followed.member.standing
                if standing is Standing.ANNOUNCED and (decision.stop or name in decision.spare):
                    self.roster.mark(name, Standing.SPARED, decision.stop or "it need not start")
                    changed = True
                elif decision.stop and not standing.is_over:
                    self.roster.mark(name, Standing.STOPPED, decision.stop)
                    changed = True
            if decision.stop and changed:
                self._say(f"enough: {decision.stop}")
        if self._asks and not self._deciding.is_busy:
            self._deciding.ask({name: own.member.standing.value for name, own in self._decided_on().items()})
            self._asks = False

    def _decided_on(self) -> dict[str, Followed]:
        """Return all but the truth: the scores need all of it, however few members are enough."""
        return {name: followed for name, followed in self._members.items() if not self._is_truth(name)}

    @property
    def is_over(self) -> bool:
        """Whether all members are over, and all that they gave is folded; a turn that does nothing has shown it."""
        return all(
            followed.member.standing.is_over and not followed.is_analysed and not self._has_more(followed)
            for followed in self._members.values()
        )

    def finish(self) -> bool:
        """Record in the store how it ended, and remove what only this needed; return whether nothing is missing."""
        lost = {
            name: followed.member
            for name, followed in self._members.items()
            if followed.member.standing is not Standing.DONE and not followed.member.standing.is_enough
        }
        left_out = sorted({name for ledger in self.moments.ledgers.values() for name in ledger.left_out})
        removed = [] if self._store is None else self._store.look_for_removed()
        for name in removed:
            self._say(f"{name}: {LOST}")
        unscored = {} if self._verifying is None else self._verifying.summarise(self._states)
        for name, why in unscored.items():
            self._say(f"{name} lacks scores: {why}")
        complete = self._store is not None and not (lost or left_out or unscored or removed or self._store.cut)
        if self._store is not None:
            told = {
                name: f"{member.standing.value}, {self._gave(name)}: {_why(member)}" for name, member in lost.items()
            }
            more: dict[str, Any] = {"bbflow_lost_members": told} if told else {}
            more |= {"bbflow_left_out_members": left_out} if left_out else {}
            more |= {"bbflow_without_scores": unscored} if unscored else {}
            self._store.commit(bbflow_status="complete" if complete else "incomplete", **more)
        # After the store's commit: until then another process could still finish it.
        self.moments.clear()
        self.places.clear()
        return complete

    def _gave(self, name: str) -> str:
        if self._members[name].is_out:
            return "taken out"
        times = max(self._members[name].store.next.values())
        return f"gave {times} time{'s' * (times != 1)}" if times else "gave nothing"

    def close(self) -> None:
        """Stop the members' analyses; another process can take over."""
        for followed in self._members.values():
            if followed.analysis is not None:
                followed.analysis.stop()
        if self._deciding is not None:
            self._deciding.close()

    # Members

    def _look_at_members(self) -> None:
        self._behind = sum(own.analysis is not None and own.has_ended for own in self._members.values())
        for name, member in self.roster.members(self._analysis.ensemble.runs).items():
            followed = self._members[name]
            followed.member = member
            if not member.standing.is_over:
                followed.store.recall()
            self._follow_analysis(name, followed)
            followed.member = self._judged(name, followed)
            # Without its refusal the ensemble would end as complete without this member.
            self._check_done(name, followed)
            # Whoever ends between two looks was looked at above: what it has is taken all the same.
            if (self._look(name, followed) or not followed.is_taken) and followed.store.grid is not None:
                self._take_grid(name, followed)
                if not followed.is_taken:
                    followed.is_taken = True
                    self._forget(name, followed)

    def _look(self, name: str, followed: Followed) -> bool:
        """Look whether a member has shown anything new; one whose store is damaged is refused."""
        try:
            is_new = followed.store.look()
        except BbflowError as error:
            self._refuse(name, followed, str(error))
            return False
        while followed.store.cut:
            window, row = followed.store.cut.pop()
            why = (
                f"member {name}: its {window} {row.number:g} was joined when its program had ended, and the steps that "
                f"it has got since are left out: let each of its jobs end where a {window} does"
            )
            self._say(why)
            if self._store is not None:
                self._store.note_cut(why)
        return is_new

    def _refuse(self, name: str, followed: Followed, why: str) -> None:
        if followed.member.standing is not Standing.REFUSED:
            self.roster.mark(name, Standing.REFUSED, why)
            followed.member = self.roster.members((name,))[name]
            self._say(why)

    def _follow_analysis(self, name: str, followed: Followed) -> None:
        ended = followed.has_ended
        if followed.analysis is not None and (verdict := followed.analysis.done(ended=ended)) is not None:
            self._look(name, followed)  # what it has shown last, before the verdict says that there is no more
            self.roster.judge(name, verdict)
            followed.member = msgspec.structs.replace(followed.member, verdict=verdict)
            followed.analysis = None
            if verdict.why:
                self._say(f"member {name}: {verdict.why}")
            if verdict.refused:
                self.roster.mark(name, Standing.REFUSED, verdict.why)
                followed.member = self.roster.members((name,))[name]
        judged = followed.member.verdict.attempt if followed.member.verdict else 0
        begins = self._begin is not None and followed.analysis is None and judged < followed.member.number
        # A lost one too, whose program may have been killed before its analysis began: it has given what it wrote.
        followed.is_due = begins and followed.member.standing is not Standing.REFUSED
        if followed.is_due and self._behind < ENDED_AT_ONCE:
            assert self._begin is not None
            followed.is_due = False
            followed.attempt = judged + 1  # one that began before another's end was judged waits for its turn
            followed.analysis = self._begin(name, followed.attempt)
            self._behind += followed.has_ended

    def _judged(self, name: str, followed: Followed) -> Member:
        """Take those as lost that aren't waited for."""
        member, ensemble = followed.member, self._analysis.ensemble
        if member.standing.is_over or (followed.is_analysed and not self._ends):
            return member
        why = ""
        if self._ends:
            why = "the ensemble was ended before it was done"
        elif member.standing is Standing.FAILED and ensemble.on_failure == "lost":
            why = f"its program ended with {member.attempt.code if member.attempt else None}"
        elif member.standing is Standing.FAILED and ensemble.lost_after_s is not None and member.attempt is not None:
            since = member.attempt.ended_s or member.attempt.began_s
            if time.time() - since > ensemble.lost_after_s:
                why = f"it wasn't started again within {ensemble.lost_after_s:g} s"
        if not why:
            return member
        self.roster.mark(name, Standing.LOST, why)
        self._say(f"member {name} is lost: {why}")
        return self.roster.members((name,))[name]

    def _take_grid(self, name: str, followed: Followed) -> None:
        """Check that a member fits the others; the first one says what they must have."""
        own = followed.store.grid
        assert own is not None
        if self._grid is None:
            own.save(self._output / GRID)
            self._grid = own
            self._open(own)
        assert self._store is not None
        if not self._store.has_coordinates() and own.coordinates == self._grid.coordinates:
            self._store.add_coordinates(followed.store)
        try:
            self._grid.check(own)
            if own.units == self._grid.units:
                followed.store.grid = self._grid  # one for all members
        except ConfigError as error:
            self._refuse(name, followed, str(error))

    def _check_done(self, name: str, followed: Followed) -> None:
        """Refuse a member that is done and has nothing of a result that all must have."""
        if followed.member.standing is not Standing.DONE or followed.is_analysed or followed.is_taken:
            return
        self._look(name, followed)
        if missing := followed.store.missing():
            why = f"member {name} has no {missing[0]}: its program writes other variables than the others, or no step"
            self._refuse(name, followed, why)

    def _take_out(self) -> None:
        """Restart moments that have something of lost members; all others give again what they gave.

        What is in other moments the ledgers leave out, as after any kill. A moment that only lost ones are in stays.
        """
        lost = set()
        for name, followed in self._members.items():
            is_lost = followed.member.standing is Standing.LOST and not followed.is_analysed
            if is_lost and not followed.is_out:
                lost.add(name)
            followed.is_out = is_lost
        emptied = 0
        for name in list(self.moments.ledgers) if lost else ():
            found = self.moments.get(name)
            members = {*found.ledger.members} if found is not None else set()
            if found is not None and members & lost and members - lost:
                self.moments.empty(found.ledger)
                emptied += 1
        if emptied:
            self._say(f"{', '.join(sorted(lost))} taken out: {emptied} times are folded again without")
            for followed in self._members.values():
                followed.store.begin_again()
                self._look(followed.store.member, followed)

    def _forget(self, name: str, followed: Followed) -> None:
        """Release what is known of a member that is over: memory is that of those that run, however many have."""
        is_over = followed.member.standing.is_over and not followed.is_analysed
        if followed.store.is_open and is_over and not self._has_more(followed) and not self._is_truth(name):
            followed.store.forget()

    def _fits(self, followed: Followed) -> bool:
        is_in = not followed.is_out and followed.member.standing is not Standing.REFUSED
        return is_in and followed.store.grid is not None

    def _rows(self, followed: Followed, window: str) -> Sequence[Row]:
        member = followed.member
        ended = followed.analysis is None and member.verdict is not None and member.verdict.attempt >= member.number
        return followed.store.whole(window, ended=ended)

    def _has_more(self, followed: Followed) -> bool:
        if not self._fits(followed):
            return False
        return any(followed.store.next[name] < len(self._rows(followed, name)) for name in self._inner)

    # Fields

    def _gather(
        self,
    ) -> tuple[dict[str, tuple[Ledger, list[Contribution]]], list[tuple[Followed, str, int]]]:
        """Read what members have shown since; a turn takes a bounded part of it."""
        given: dict[str, tuple[Ledger, list[Contribution]]] = {}
        taken: list[tuple[Followed, str, int]] = []
        left = TURN_BYTES
        for unit in self._units:
            for window in self._inner:
                reached: dict[str, int] = {}
                for _, rows in groupby(self._ready(unit, window), lambda item: item[0]):
                    # Not within a time: the runs of a design's group are folded together, or not yet.
                    if left <= 0:
                        break
                    for _, name, at, row in rows:
                        left -= self._take_row(name, self._members[name], window, row, given)
                        reached[name] = at + 1
                taken += [(self._members[name], window, at) for name, at in reached.items()]
        return given, taken

    def _ready(self, unit: Sequence[str], window: str) -> list[tuple[int, str, int, Row]]:
        """Return the times of some runs that aren't taken yet, up to the last that all have or won't have, in order."""
        found, ready = [], math.inf
        for name in unit:
            followed = self._members[name]
            rows = self._rows(followed, window) if self._fits(followed) else ()
            if not followed.member.standing.is_over or followed.is_analysed:
                ready = min(ready, rows[-1].instant if rows else -math.inf)
            first = followed.store.next[window]
            found += [(row.instant, name, first + at, row) for at, row in enumerate(rows[first:])]
        return sorted((item for item in found if item[0] <= ready), key=lambda item: item[0])

    def _take_row(
        self, name: str, followed: Followed, inner: str, row: Row, given: dict[str, tuple[Ledger, list[Contribution]]]
    ) -> int:
        """Read a row's fields for each moment that they go into; give the bytes that were read."""
        if self._is_truth(name):
            return 0
        wanted = [states for states in self._states.values() if states.inner.name == inner]
        results = dict.fromkeys(result for states in wanted for result in states.results)
        values = {result: followed.store.read(result, row) for result in results}
        there = {result: own for result, own in values.items() if own is not None}
        for states in wanted:
            assert followed.store.grid is not None
            ledger = self._moment_of(states, row, followed.store.grid.clock, split_run(name)[0])
            if ledger is None:
                continue
            if gone := [result for result in states.results if result not in there]:
                # What was taken before this process began may be let go of; else it is lost, and none has the rest.
                if row.instant > self.moments.through.get((ledger.window, name), -FOREVER):
                    self._note_removed(followed, row, gone)
                continue
            own = given.setdefault(ledger.name, (ledger, []))[1]
            mine = {result: there[result] for result in states.results}
            own.append(Contribution(name, row.instant, mine, self._analysis.weight_of(name)))
        return sum(own.nbytes for own in there.values())

    def _note_removed(self, followed: Followed, row: Row, results: Sequence[str]) -> None:
        assert self._store is not None
        paths = (followed.store.path(result, row) for result in results)
        self._store.note_removed(str(path.relative_to(self._output)) for path in paths)

    def _is_truth(self, run: str) -> bool:
        return split_run(run)[1] == self._analysis.ensemble.truth

    def _moment_of(self, states: WindowStates, row: Row, own: Clock, start: str) -> Ledger | None:
        """Return the moment that a row goes into, with nothing in it; None if it goes into none."""
        assert self._grid is not None
        window, clock = states.window, self._grid.clock
        time, begin, end = row.number, *row.bounds
        if own != clock:  # another reference date
            time, begin, end = (clock.number(own.date(number)) for number in (time, begin, end))
        numbers = time, begin, end
        if start:
            lead, *bounds = ((self._grid.instant(n, clock) - self._leads[start]) / HOUR_US for n in numbers)
            numbers = lead, bounds[0], bounds[1]
        if states.is_inner:
            return Ledger(window=window.name, begin=row.instant, end=row.end, numbers=numbers, start=start)
        if isinstance(window.spans, Run):
            return Ledger(window=window.name, begin=0, end=FOREVER, numbers=numbers, start=start)
        date = clock.date(numbers[1])
        key = window.key(date, row.index)
        if key is None:
            return None
        first, last = (clock.number(bound) for bound in window.bounds(key, date, date))
        instants = self._grid.instant(first, clock), self._grid.instant(last, clock)
        middle = (first + last) / 2, first, last
        return Ledger(window=window.name, begin=instants[0], end=instants[1], numbers=middle)

    def _refuses(self, ledger: Ledger, given: Sequence[Contribution]) -> bool:
        """Whether a moment takes nothing more; who would have given something is noted."""
        assert self._store is not None
        known = self.moments.ledgers.get(ledger.name)
        if known is None and self._store.may_show(self._states[ledger.window], ledger):
            return False
        if known is not None and not known.closed:
            return False
        names = {item.member for item in given} - self.moments.members_of(ledger.name)
        before = known or ledger
        if more := names.difference(before.left_out):
            self._say(
                f"{', '.join(sorted(more))}: too late for {ledger.window} {ledger.numbers[0]:g}, which was shown "
                "complete without; ensemble: {late: amend} would take it in"
            )
            found = self.moments.get(ledger.name)
            members = found.ledger.members if found is not None else {}
            left_out = tuple(sorted({*before.left_out, *more}))
            self.moments.close(msgspec.structs.replace(before, members=members, left_out=left_out))
        return True

    # MomentFiles

    def _truth(self, result: str, ledger: Ledger) -> Array | None:
        """Return the truth's field of a moment; None if it has none."""
        followed = self._members[run_of(ledger.start, self._analysis.ensemble.truth or "")]
        window = self._states[ledger.window].inner.name
        row = next((row for row in self._rows(followed, window) if row.instant == ledger.begin), None)
        found = None if row is None else followed.store.read(result, row)
        if row is not None and found is None:
            self._note_removed(followed, row, [result])
        return None if found is None else found.astype("f8")

    def _show(self) -> bool:
        """Show moments that are due, in the order of time, all with one commit."""
        if self._store is None:
            return False
        due = [one for states in self._states.values() for one in self._due(states, self._store)]
        for states, ledger, shown, is_new in due:
            moment = self.moments.get(ledger.name)
            assert moment is not None
            results = {item.field.key: finished(item, moment) for item in states.fields} if is_new else {}
            self._store.write(states, ledger, results)
            # The truth may come when all members are in the moment, and readers have seen it.
            if self._verifying is not None and (is_new or self._analysis.ensemble.truth is not None):
                self._verifying.score(states, ledger, moment)
            self._store.mark(states, ledger, shown)
        if due:
            self._store.commit()
        # After the commit: a closed moment has no states, so what a kill left unshown couldn't be shown any more.
        for states, ledger, shown, _ in due:
            if shown is not MomentShown.OPEN and self._may_close(ledger, states):
                self.moments.close(ledger)
        return bool(due)

    def _due(self, states: WindowStates, store: EnsembleStore) -> list[tuple[WindowStates, Ledger, MomentShown, bool]]:
        """Return which moments of a window are to be shown, as what, and whether with other values than before."""
        own: dict[str, list[Ledger]] = {}
        for ledger in self.moments.of(states.window.name):
            if not ledger.closed:
                own.setdefault(ledger.start, []).append(ledger)
        return [one for start, ledgers in own.items() for one in self._due_of(states, store, start, ledgers)]

    def _due_of(
        self, states: WindowStates, store: EnsembleStore, start: str, ledgers: Sequence[Ledger]
    ) -> list[tuple[WindowStates, Ledger, MomentShown, bool]]:
        passed = self._passed(states, start)
        is_past = [passed >= (ledger.begin if states.is_inner else ledger.end) for ledger in ledgers]
        least = self._analysis.ensemble.show or math.inf
        last = max((at for at, own in enumerate(ledgers) if is_past[at] or len(own.members) >= least), default=-1)
        due = []
        for ledger, past in zip(ledgers[: last + 1], is_past, strict=False):
            before, fields = store.shown(states, ledger)
            is_new = fields != ledger.fields
            now = MomentShown.COMPLETE if past else MomentShown.OPEN
            if before is MomentShown.AMENDED or (before is MomentShown.COMPLETE and is_new):
                now = MomentShown.AMENDED
            if is_new or now is not before:
                due.append((states, ledger, now, is_new))
            elif now is not MomentShown.OPEN and self._may_close(ledger, states):
                self.moments.close(ledger)  # it was shown just before a kill
        return due

    def _may_close(self, ledger: Ledger, states: WindowStates) -> bool:
        """Whether nothing can come any more that would be let in."""
        if self._analysis.ensemble.late == "refuse":
            return True
        return states.is_inner and len(ledger.members) == len(self._analysis.ensemble.members)

    def _passed(self, states: WindowStates, start: str) -> float:
        """Return the time that all runs of a start have passed, and have been folded up to."""
        names = (run_of(start, name) for name in self._analysis.ensemble.everyone)
        return min((self._frontier(self._members[name], states) for name in names), default=-math.inf)

    def _frontier(self, followed: Followed, states: WindowStates) -> float:
        if not self._fits(followed):
            # One that is lost may not have been looked at yet, as long as its analysis runs.
            return math.inf if followed.member.standing.is_over and not followed.is_analysed else -math.inf
        inner = states.inner.name
        rows, at = self._rows(followed, inner), followed.store.next[inner]
        if at >= len(rows) and followed.member.standing.is_over and not followed.is_analysed:
            return math.inf
        folded = rows[:at]
        return -math.inf if not folded else folded[-1].instant if states.is_inner else folded[-1].end


def _why(member: Member) -> str:
    return member.mark.why if member.mark is not None else ""
