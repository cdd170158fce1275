"""Room that ranks are given before they begin: theirs if they take it, and never in the way of others."""

import os

import pytest

from testsupport.peers import ANALYSIS, LOSS_S, PAGE, full_file_system


@pytest.fixture
def offered(bench):
    """Offers pages for the second step of a rank to whom the first was given; gives the reply and the offer's link."""

    def run(pages, ahead=None, stream="a", peer=0, **more):
        opened = bench.open(stream=stream, peer=peer, **more)
        extents = bench.begin(peer, 0, pages)["extents"]
        reply = bench.commit(peer, 0, *extents, ahead=ahead or pages)
        return reply, bench.directory / "offers" / opened["offer"]

    return run


def take(file):
    """Do what an engine does."""
    file.rename(f"{file}.taken")


def written(bench):
    return {name: stream["written"] for name, stream in bench.say(ANALYSIS, "status")["streams"].items()}


def test_an_offer_is_taken_by_renaming_its_link(bench, offered):
    reply, file = offered(3)
    assert (reply["status"], bench.free_pages(), written(bench)) == ("ok", 10, {"a": 1})
    take(file)
    assert written(bench) == {"a": 2}
    bench.commit(0, 1, *reply["extents"])
    assert bench.watch()["ok"]
    assert bench.say(ANALYSIS, "status")["streams"]["a"]["landed"] == 2


def test_what_was_not_taken_goes_to_who_waits(bench, offered):
    _, file = offered(6)
    bench.open(stream="b", peer=1)
    assert bench.begin(1, 0, 8)["extents"]  # more than is left beside the offer and a step
    assert not file.is_symlink()
    assert bench.begin(0, 1, 6) is None


def test_what_was_taken_stays(bench, offered):
    _, file = offered(6)
    take(file)
    bench.open(stream="b", peer=1)
    assert bench.begin(1, 0, 8) is None


def test_nothing_is_offered_while_someone_waits(bench, offered):
    bench.open(stream="b", peer=1)
    bench.land(0, 8, rank=1)
    assert bench.begin(1, 1, 10) is None
    reply, file = offered(2)
    assert (reply["status"], reply["extents"], file.is_symlink()) == ("later", [], False)


@pytest.mark.parametrize("policy", ["Discard", "Spill"])
def test_what_may_be_discarded_or_spilled_is_decided_when_it_is_begun(bench, offered, policy):
    reply, _ = offered(2, policy=policy)
    assert reply["status"] == "later"


def test_a_rank_over_tcp_is_offered_nothing(bench):
    assert not bench.open(transport="tcp")["offer"]
    extents = bench.begin(0, 0, 2)["extents"]
    assert bench.commit(0, 0, *extents, ahead=1)["status"] == "later"


def test_who_asks_for_none_gets_no_reply(bench):
    assert bench.open()["offer"]
    extents = bench.begin(0, 0, 2)["extents"]
    assert bench.commit(0, 0, *extents) is None


def test_a_step_that_can_not_be_is_refused_when_it_is_begun(bench, offered):
    reply, _ = offered(3, ahead=17)
    assert reply["status"] == "later"
    assert "capacity" in bench.begin(0, 1, 17)["error"]


def test_without_room_for_its_link_there_is_no_offer(bench, offered):
    (bench.directory / "offers").rmdir()
    reply, _ = offered(3)
    assert (reply["status"], bench.free_pages()) == ("later", 13)
    assert bench.begin(0, 1, 3)["extents"]


@pytest.mark.parametrize("end", ["close", "abort", "hang up", "lose", "die"])
def test_the_end_of_a_connection_ends_its_offer(bench, offered, end):
    _, file = offered(3)
    match end:
        case "close":
            assert bench.say(0, "close", steps=1)["ok"]
        case "abort":
            bench.say(0, "abort")
        case "hang up" | "lose":
            bench.hang_up(0, by_itself=end == "hang up")
        case "die":
            bench.reopen()
    assert (file.is_symlink(), bench.free_pages()) == (False, 13)


def test_a_taken_offer_outlives_the_agent(bench, offered):
    reply, file = offered(3)
    take(file)
    bench.reopen()
    assert (list(file.parent.iterdir()), bench.free_pages()) == ([], 10)
    again = bench.open(stream="a", resume=True, settled=0)
    assert (again["extents"], again["offer"] != file.name) == (reply["extents"], True)


def test_an_offer_that_was_used_up_is_not_had_again(bench, offered):
    reply, file = offered(3)
    take(file)
    bench.commit(0, 1, *reply["extents"])
    bench.reopen()
    assert (list(file.parent.iterdir()), bench.free_pages()) == ([], 10)
    assert not bench.open(stream="a", resume=True, settled=1)["extents"]


def test_a_taken_offer_is_given_once_to_a_rank_that_comes_back(bench, offered):
    reply, file = offered(3)
    take(file)
    bench.hang_up(0, by_itself=False)
    for _ in range(2):
        again = bench.open(stream="a", resume=True, settled=0)
        assert (again["extents"], bench.free_pages()) == (reply["extents"], 10)
        assert not list(file.parent.iterdir())
        bench.reopen()


def test_room_that_comes_after_what_was_taken_is_beside_it(bench, offered):
    reply, file = offered(3)
    take(file)
    more = bench.say(0, "reserve", step=1, bytes=PAGE)["extents"]
    bench.reopen()
    again = bench.open(stream="a", resume=True, settled=0)
    assert (sorted(again["extents"]), bench.free_pages()) == (sorted(reply["extents"] + more), 9)


def test_an_index_that_is_written_anew_leaves_out_what_is_only_offered(bench, offered):
    _, file = offered(3)
    bench.store.compact()
    bench.reopen()
    assert (list(file.parent.iterdir()), bench.free_pages()) == ([], 13)


def test_an_agent_that_died_between_its_index_and_an_offer_s_link_grants_it_once(bench, offered):
    reply, file = offered(3)
    take(file)
    link = os.readlink(f"{file}.taken")
    bench.reopen()
    os.symlink(link, f"{file}.taken")
    bench.reopen()
    again = bench.open(stream="a", resume=True, settled=0)
    assert (again["extents"], bench.free_pages()) == (reply["extents"], 10)


def test_what_a_user_has_beside_offers_stays(bench, offered):
    _, file = offered(3)
    notes = file.with_name("notes.txt")
    notes.write_text("mine")
    bench.reopen()
    assert (list(file.parent.iterdir()), bench.free_pages()) == ([notes], 13)


def test_what_was_taken_stays_while_the_index_has_no_room_to_tell_of_it(bench, offered):
    reply, file = offered(6)
    take(file)
    bench.open(stream="b", peer=1)
    with full_file_system(bench):
        assert bench.begin(1, 0, 8) is None
        bench.hang_up(0, by_itself=False)
        assert "free some of its file system" in bench.open(stream="a", peer=2, resume=True, settled=0)["error"]
    bench.reopen()
    assert bench.open(stream="a", resume=True, settled=0)["extents"] == reply["extents"]
    assert bench.free_pages() == 4


@pytest.mark.parametrize("end", ["abort", "hang up", "lose"])
def test_what_was_taken_goes_with_its_rank_though_the_index_has_no_room(bench, offered, end):
    _, file = offered(6)
    take(file)
    with full_file_system(bench):
        if end == "abort":
            bench.say(0, "abort")
        else:
            bench.hang_up(0, by_itself=end == "hang up")
            bench.wait(LOSS_S)
    assert bench.say(ANALYSIS, "status")["streams"]["a"]["status"] == "aborted"
    assert (list(file.parent.iterdir()), bench.free_pages()) == ([], 10)
