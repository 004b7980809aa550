"""Sweeps on a cluster of dask: spawned workers that are reached by TCP, as on machines of their own."""

import json
import os
import signal
import time

import pytest

import remat_algos as ra
from remat_algos.cli.main import main
from tests.test_sweeps import ROWS, lasting, swept  # noqa: F401 (a fixture)

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")  # dask's own


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two workers, which start anew when they are killed."""
    folder = tmp_path_factory.mktemp("dask")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            local_directory=str(folder),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_the_results_are_those_of_processes(cluster, swept, tmp_path):  # noqa: F811
    found = ra.sweep(ROWS, tmp_path / "results", cluster.get_executor())
    assert lasting(found) == lasting(swept)


def test_workers_that_are_killed_lose_no_job(cluster, tmp_path, monkeypatch):
    graph = ra.ComputationGraph.from_edges([(i, i + 1) for i in range(9)])
    rows = [{"graph": graph, "budget": "60%", "solver": "greedy_remat", "seed": list(range(60))}]
    killed = []

    def progress(done, total, text):
        if done > 250 * (1 + len(killed)) and len(killed) < 3:
            numbers = list(cluster.run(os.getpid).values())
            os.kill(numbers[len(killed) % len(numbers)], signal.SIGKILL)
            killed.append(done)
            time.sleep(0.2)

    found = ra.sweep(rows, tmp_path / "results", cluster.get_executor(), progress=progress)
    assert len(killed) == 3
    assert sorted(row["seed"] for row in found) == list(range(60))
    assert {row["outcome"] for row in found} == {"planned"}
    plain = ra.sweep(rows, tmp_path / "plain", processes=2)
    assert lasting(found) == lasting(plain)


def test_the_command_finds_a_scheduler(cluster, tmp_path, capsys):
    (tmp_path / "graph.txt").write_text("a b\nb c\nc d\na d\n")
    row = {"graph": "graph.txt", "budget": ["90%", "70%"], "solver": "greedy_remat"}
    (tmp_path / "jobs.jsonl").write_text(json.dumps(row))
    command = ["sweep", str(tmp_path / "jobs.jsonl"), "-o", str(tmp_path / "results"), "--json"]
    assert main([*command, "--dask", cluster.scheduler.address]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 2


def test_a_scheduler_that_does_not_answer_is_one_sentence(tmp_path, capsys, monkeypatch):
    (tmp_path / "graph.txt").write_text("a b\n")
    (tmp_path / "jobs.jsonl").write_text('{"graph": "graph.txt"}')
    command = ["sweep", str(tmp_path / "jobs.jsonl"), "-o", str(tmp_path / "results"), "--dask", "tcp://127.0.0.1:9"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "no scheduler answers at this address; start one with `dask scheduler`" in " ".join(said.split())


def test_a_scheduler_that_goes_ends_the_sweep_in_one_sentence(tmp_path):
    rows = [{"graph": "model:vgg11", "budget": "50%", "solver": "greedy_remat", "seed": list(range(200))}]
    closed = []
    options = {"n_workers": 1, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None}
    with (
        distributed.LocalCluster(**options, local_directory=str(tmp_path)) as cluster,
        distributed.Client(cluster) as client,
    ):

        def progress(done, total, text):
            if done >= 50 and not closed:
                closed.append(done)
                client.close()
                cluster.close()

        with pytest.raises(ra.errors.SweepError, match=r"Dask scheduler is gone; start one|accepts no jobs \(.*run"):
            ra.sweep(rows, tmp_path / "results", client.get_executor(), progress=progress)
    assert 5 <= len(ra.read_sweep(tmp_path / "results")) < 200
    assert not list((tmp_path / "results" / "drivers").glob("*.json"))


def test_workers_keep_no_files_of_graphs(cluster, tmp_path):
    rows = [{"graph": f"model:vgg11?batch={batch}", "budget": "80%", "solver": "chen_sqrt"} for batch in range(1, 13)]
    found = ra.sweep(rows, tmp_path / "results", cluster.get_executor())
    assert len(found) == 12

    def kept():
        from remat_algos.sweeps.children import _graph_folder

        return os.listdir(_graph_folder().name)

    assert not any(cluster.run(kept).values())
