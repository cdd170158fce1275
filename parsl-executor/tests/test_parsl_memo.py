import apps
from bbflow_parsl.memo import id_of_file
from parsl import python_app
from parsl.data_provider.files import File
from parsl.dataflow.memoization import BasicMemoizer, id_for_memo

count = python_app(apps.count, cache=True)


def runs(log):
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_files_are_known_to_parsls_memoiser(site):
    site.threads()
    assert id_for_memo.dispatch(File) is id_of_file


def test_a_task_with_the_same_files_runs_once(site):
    path, log = site.write("a.txt", "a"), site.root / "log"
    with site.load(site.threads()):
        first = count(str(log), inputs=[File(str(path))]).result()
        second = count(str(log), inputs=[File(str(path))]).result()
    assert (first, second, runs(log)) == (["a"], ["a"], 1)


def test_a_changed_input_runs_the_task_again(site):
    path, log = site.write("a.txt", "a"), site.root / "log"
    with site.load(site.threads()):
        count(str(log), inputs=[File(str(path))]).result()
        site.write("a.txt", "changed")
        assert count(str(log), inputs=[File(str(path))]).result() == ["changed"]
    assert runs(log) == 2


def test_another_output_runs_the_task_again(site):
    log = site.root / "log"
    with site.load(site.threads()):
        for name in ("x", "y", "x"):
            count(str(log), outputs=[File(str(site.pfs / name))]).result()
    assert runs(log) == 2


def test_an_intermediate_file_that_is_there_is_not_made_again(site):
    log = site.root / "log"
    with site.load(site.threads()):
        for _ in range(2):
            made = count(str(log), outputs=[File(str(site.work / "x.txt"))])
            reader = python_app(apps.read)(made.outputs[0])
            assert reader.result()[1] == "made"
    assert runs(log) == 1


def test_a_checkpoint_knows_inputs_and_results_but_no_intermediate_file_of_a_dead_run(site):
    path = site.write("a.txt", "a")
    logs = [site.root / name for name in ("inputs", "result", "intermediate")]
    for _ in range(2):
        with site.load(site.threads(), memoizer=BasicMemoizer(checkpoint_mode="task_exit")):
            count(str(logs[0]), inputs=[File(str(path))]).result()
            count(str(logs[1]), outputs=[File(str(site.results / "x.txt"))]).outputs[0].result()
            made = count(str(logs[2]), outputs=[File(str(site.work / "y.txt"))])
            assert python_app(apps.read)(made.outputs[0]).result()[1] == "made"
    assert [runs(log) for log in logs] == [1, 1, 2]


def test_where_the_burst_buffer_is_does_not_count(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a")
    staged, plain = File(str(path)), File(str(path))
    staged.local_path = "/bb/a.txt"
    assert id_of_file(staged) == id_of_file(plain)
    path.write_text("other")
    assert id_of_file(staged) == id_of_file(plain)
