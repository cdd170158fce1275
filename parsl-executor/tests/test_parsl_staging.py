import os
from pathlib import Path

import apps
import parsl
import pytest
from bbflow_parsl import BurstBufferSettings
from parsl import bash_app, python_app
from parsl.data_provider.files import File
from parsl.dataflow.errors import DependencyError

from bbflow.errors import ConfigError
from bbflow.staging import Retry
from testsupport.moments import contents_of
from testsupport.waiting import until

read, read_all, write, join = (python_app(each) for each in (apps.read, apps.read_all, apps.write, apps.join))


def file(path):
    return File(str(path))


def is_on(directory, path):
    return Path(path).is_relative_to(directory)


def test_files_in_arguments_keywords_and_inputs_are_read_from_the_burst_buffer(site):
    paths = [site.write(f"{name}.txt", name) for name in "abcd"]
    with site.load(site.threads()):
        first = read(file(paths[0])).result()
        second = read(file=file(paths[1])).result()
        third = read_all(inputs=[file(paths[2])], extra=file(paths[3])).result()
    found = [first, second, *third]
    assert [content for _, content in found] == list("abcd")
    assert all(is_on(site.bb, path) for path, _ in found)


def test_a_file_that_is_named_twice_is_one_file(site):
    path = site.write("a.txt", "a")
    with site.load(site.threads()):
        found = read_all(inputs=[file(path), file(path)], extra=file(path)).result()
    assert len(set(found)) == 1


def test_relative_names_and_urls_name_the_same_file(site):
    path = site.write("a.txt", "a")
    names = [os.path.relpath(path), str(path), f"file://{path}", f"file://localhost{path}"]
    with site.load(site.threads()):
        found = read_all(inputs=[File(name) for name in names]).result()
    assert len(set(found)) == 1
    assert is_on(site.bb, found[0][0])


def test_only_files_below_the_named_sources_are_staged(site):
    inside, outside = site.write("data/a.txt", "a"), site.write("database/b.txt", "b")
    with site.load(site.threads(sources=[str(site.pfs / "data")])):
        found = read_all(inputs=[file(inside), file(outside)]).result()
    assert [is_on(site.bb, path) for path, _ in found] == [True, False]


def test_calling_an_app_does_not_wait_for_its_files(site, gate):
    site.write("a.txt", "slow")
    with site.load(site.threads()):
        task = read(File(f"{gate.url}/a.txt"))
        assert gate.asked.wait(300)
        other = read(file(site.write("b.txt", "b")))
        assert other.result()[1] == "b"
        assert not task.done()
        gate.opened.set()
        assert task.result()[1] == "slow"


def test_room_is_held_until_the_task_is_final_through_retries(site):
    path, log = site.write("a.txt", "a"), site.root / "log"
    with site.load(site.threads(), retries=2):
        task = python_app(apps.fail_once)(str(log), inputs=[file(path)])
        assert task.result()[1] == "a"
    tries = log.read_text().splitlines()
    assert len(tries) == 2
    assert len(set(tries)) == 1, "the second try finds the very same copy"


def test_what_was_changed_since_it_was_staged_is_read_from_its_source(site, gate):
    path = site.write("a.txt", "old")
    site.write("gate.txt", "gate")

    @python_app
    def read_after(_, inputs=()):
        return os.fspath(inputs[0]), Path(inputs[0]).read_text()

    with site.load(site.threads()):
        task = read_after(read(File(f"{gate.url}/gate.txt")), inputs=[file(path)])
        until(lambda: b"old" in contents_of(site.files_on_bb()))
        site.write("a.txt", "newer")
        gate.opened.set()
        assert task.result() == (str(path), "newer")


def test_a_task_that_waits_for_another_sees_what_that_one_changed(site):
    path = site.write("a.txt", "old")

    @python_app
    def change(path):
        with open(path, "w") as file:
            file.write("changed")

    @python_app
    def read_after(_, inputs=()):
        with open(inputs[0]) as file:
            return file.read()

    with site.load(site.threads()):
        assert read_after(change(str(path)), inputs=[file(path)]).result() == "changed"


def test_a_missing_file_is_the_tasks_own_error(site):
    with site.load(site.threads()), pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
        read(file(site.pfs / "nowhere.txt")).result()


def test_a_missing_url_is_one_error_that_names_it(site, gate):
    gate.opened.set()
    with site.load(site.threads()):
        with pytest.raises(DependencyError) as raised:
            read(File(f"{gate.url}/nowhere.txt")).result()
        assert "nowhere.txt" in str(raised.value.__cause__)


def test_a_directory_is_read_where_it_is(site):
    site.write("many/a.txt", "a")

    @python_app
    def names(inputs=()):
        return os.listdir(inputs[0])

    with site.load(site.threads()):
        assert names(inputs=[file(site.pfs / "many")]).result() == ["a.txt"]


def test_intermediate_files_stay_on_the_burst_buffer(site):
    with site.load(site.threads()):
        made = write("x", outputs=[file(site.work / "x.txt")])
        copied = join(inputs=[made.outputs[0], made.outputs[0]], outputs=[file(site.work / "xx.txt")])
        path, content = read(copied.outputs[0]).result()
        assert content == "xx"
        assert is_on(site.bb, path)
        assert all(is_on(site.bb, path) for path in made.result() + copied.result())
    assert not site.work.exists()


def test_an_intermediate_file_is_staged_out_when_it_is_asked_for(site):
    executor = site.threads()
    with site.load(executor):
        made = write("x", outputs=[file(site.work / "x.txt"), file(site.work / "y.txt")])
        executor.publish(made.outputs[0]).result(300)
        with pytest.raises(LookupError, match=r"other\.txt"):
            executor.publish(file(site.work / "other.txt"))
    assert [path.name for path in site.work.iterdir()] == ["x.txt"]


def test_results_are_in_their_place_when_the_task_is_done(site):
    with site.load(site.threads()):
        made = write("x", outputs=[file(site.results / "x.txt")])
        assert is_on(site.bb, made.result()[0])
        assert (site.results / "x.txt").read_text() == "x"
        assert made.outputs[0].result().filepath == str(site.results / "x.txt")


def test_a_result_that_cant_be_staged_out_fails_its_task_and_is_tried_again(site):
    log = site.root / "log"
    site.results.write_text("a file where the directory should be")

    @python_app
    def mend(log, results, outputs=()):
        with open(log, "a") as file:
            file.write("ran\n")
        if Path(log).read_text() == "ran\nran\n":
            os.remove(results)
        with open(outputs[0], "w") as file:
            file.write("x")

    with site.load(site.threads(options={"retry": Retry(attempts=2)}), retries=1):
        mend(str(log), str(site.results), outputs=[file(site.results / "x.txt")]).result()
    assert (site.results / "x.txt").read_text() == "x"


def test_results_are_in_their_place_after_the_clean_up(site):
    with site.load(site.threads()):
        for number in range(20):
            write("x", outputs=[file(site.results / f"{number}.txt")]).result()
    assert len(list(site.results.iterdir())) == 20


def test_other_outputs_are_written_to_their_place(site):
    with site.load(site.threads()):
        made = write("x", outputs=[file(site.pfs / "x.txt")])
        assert made.result() == [str(site.pfs / "x.txt")]
        assert read(made.outputs[0]).result() == (str(site.pfs / "x.txt"), "x")


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_standard_output_can_be_a_result(site):
    @bash_app
    def say(stdout=None):
        return "echo hello"

    with site.load(site.threads()):
        said = say(stdout=file(site.results / "said.txt"))
        said.stdout.result()
    assert (site.results / "said.txt").read_text() == "hello\n"


def test_a_failed_task_leaves_no_output_and_its_reader_fails(site):
    @python_app
    def half(outputs=()):
        with open(outputs[0], "w") as file:
            file.write("half")
        raise RuntimeError("it broke")

    with site.load(site.threads()):
        made = half(outputs=[file(site.work / "x.txt"), file(site.results / "y.txt")])
        reader = read(made.outputs[0])
        with pytest.raises(RuntimeError, match="it broke"):
            made.result()
        with pytest.raises(DependencyError):
            reader.result()
        assert not site.files_on_bb()
    assert not site.results.exists()


def test_outputs_beyond_their_room_go_to_their_own_places(site):
    content = "x" * 60_000
    with site.load(site.threads(capacity=400_000)):
        made = [write(content, outputs=[file(site.work / f"{number}.txt")]) for number in range(8)]
        for each in made:
            each.result()
        until(lambda: site.bytes_on_bb() <= 200_000)
        found = [read(each.outputs[0]).result() for each in made]
        assert [each for _, each in found] == [content] * 8
        assert 0 < sum(is_on(site.bb, path) for path, _ in found) <= 3


def test_parsls_own_providers_work_behind_ours(site):
    executor = site.threads()
    executor.working_dir = str(site.root)
    with site.load(executor):
        url = f"zip:{site.pfs}/all.zip/inside/x.txt"
        write("x", outputs=[File(url)]).outputs[0].result()
        assert read(File(url)).result()[1] == "x"
    assert (site.pfs / "all.zip").exists()


def test_what_no_provider_takes_is_parsls_error(site):
    with site.load(site.threads()), pytest.raises(ValueError, match="cannot stage"):
        read(File("globus://endpoint/x.txt"))


def test_many_tasks_with_little_room_all_run_in_turn(site):
    paths = [site.write(f"{number}.txt", str(number) * 10_000) for number in range(10)]

    @python_app
    def add(before, inputs=()):
        return before + sum(len(Path(each).read_text()) for each in inputs)

    total = 0
    with site.load(site.threads(capacity=25_000, intermediate=[], results=[])):
        for number in range(30):
            total = add(total, inputs=[file(paths[number % 10]), file(paths[(number * 3) % 10])])
        assert total.result() == sum(10_000 * 2 for _ in range(30))


def test_a_set_larger_than_the_burst_buffer_is_an_error_that_names_it(site):
    path = site.write("large.txt", "x" * 30_000)
    with site.load(site.threads(capacity=20_000, intermediate=[], results=[])):
        with pytest.raises(DependencyError) as raised:
            read(file(path)).result()
        assert "29.3 KiB" in str(raised.value.__cause__)


def test_a_set_larger_than_the_burst_buffer_is_read_directly_if_so_configured(site):
    path = site.write("large.txt", "x" * 30_000)
    burst_buffer = {"capacity": 20_000, "intermediate": [], "results": [], "options": {"oversize": "direct"}}
    with site.load(site.threads(**burst_buffer)):
        assert read(file(path)).result() == (str(path), "x" * 30_000)


def test_an_executor_that_is_not_started_says_so(site):
    with pytest.raises(RuntimeError, match=r"parsl\.load"):
        site.threads().staging.can_stage_in(File("a.txt"))


def test_a_burst_buffer_that_is_not_there_is_one_clear_error(site):
    with pytest.raises(ConfigError, match="nowhere"):
        site.load(site.threads(directory=site.root / "nowhere"))
    parsl.clear()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outputs_share": 1.5}, "outputs_share"),
        ({"sources": "/pfs"}, "list of prefixes"),
        ({"slots": 0}, "slots"),
        ({"intermediate": ["/pfs/work"], "results": ["/pfs/work/"]}, "/pfs/work is in 'intermediate' and in 'results'"),
    ],
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        BurstBufferSettings(**changes)


@pytest.mark.parametrize("outer", ["intermediate", "results"])
def test_of_prefixes_within_each_other_the_longest_counts(outer):
    inner = "results" if outer == "intermediate" else "intermediate"
    settings = BurstBufferSettings(**{outer: ["/pfs/me"], inner: ["/pfs/me/in"]})
    assert settings.stages_out("/pfs/me/in/file") == (inner == "results") != settings.keeps("/pfs/me/in/file")
    assert settings.stages_out("/pfs/me/file") == (outer == "results") != settings.keeps("/pfs/me/file")
    assert not settings.keeps("/pfs/other")
    assert not settings.stages_out("/pfs/other")
