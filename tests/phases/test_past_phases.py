from bbflow.phases import Board, BoardSource, Phase
from bbflow.phases.board import KEPT, KEPT_S
from bbflow.phases.prediction import predict
from bbflow.staging.watching import Memory
from testsupport.clocks import Clock


def announce(board, clock, application, duration_s, pause_s):
    token = board.begin(application).token
    clock.now_s += duration_s
    board.end(token)
    clock.now_s += pause_s


def test_ended_phases_stay_on_the_board_and_do_not_last(tmp_path):
    clock = Clock()
    announce(Board(tmp_path, clock), clock, "model", 2.0, 5.0)
    assert Board(tmp_path, clock).read() == []
    assert Board(tmp_path, clock).past() == [Phase("model", "pfs", 1000.0, 1002.0)]


def test_only_the_newest_of_each_application_stay(tmp_path):
    clock = Clock()
    board = Board(tmp_path, clock)
    for _ in range(KEPT + 5):
        announce(board, clock, "model", 1.0, 1.0)
    announce(board, clock, "other", 1.0, 1.0)
    past = board.past()
    assert [phase.application for phase in past] == ["model"] * KEPT + ["other"]
    assert past[0].began_s == 1000.0 + 5 * 2


def test_applications_that_are_long_gone_are_forgotten(tmp_path):
    clock = Clock()
    board = Board(tmp_path, clock)
    announce(board, clock, "gone", 1.0, KEPT_S)
    announce(board, clock, "model", 1.0, 1.0)
    assert [phase.application for phase in board.past()] == ["model"]


def test_a_phase_whose_lease_ran_out_has_no_known_end(tmp_path):
    clock = Clock()
    board = Board(tmp_path, clock)
    token = board.begin("model", lease_s=1.0).token
    clock.now_s += 50
    assert board.end(token)
    assert board.past() == []


def test_rubbish_is_no_past_phase(tmp_path):
    for number, text in enumerate(
        ["", "[]", "{}", '{"application": "a", "file_system": "p", "began_s": 5, "ended_s": 1}']
    ):
        (tmp_path / f"{number}.past").write_text(text)
    (tmp_path / "binary.past").write_bytes(b"\xff\xfe")
    assert Board(tmp_path).past() == []


def test_who_comes_later_predicts_at_once(tmp_path):
    clock = Clock()
    board = Board(tmp_path, clock)
    for _ in range(6):
        announce(board, clock, "model", 1.0, 3.0)
    memory = Memory()
    memory.recall(BoardSource(tmp_path).past())
    prediction = memory.predicted(clock.now_s)
    assert prediction == predict(board.past(), clock.now_s)
    assert prediction.begins_s == 1000.0 + 6 * 4
    assert memory.phase_s == 1.0


def test_phases_of_other_file_systems_and_of_oneself_are_not_recalled(tmp_path):
    for application, file_system in (("model", "pfs"), ("model", "scratch"), ("drain", "pfs")):
        board = Board(tmp_path)
        board.end(board.begin(application, file_system).token)
    past = BoardSource(tmp_path, file_system="pfs", ignore=["drain"]).past()
    assert [(phase.application, phase.file_system) for phase in past] == [("model", "pfs")]
