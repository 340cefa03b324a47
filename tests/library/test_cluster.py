"""The same library from a cluster of worker processes, one of which is killed."""

import os
import signal

import pytest
from distributed import Client, LocalCluster

from rocke.library import build_library


@pytest.mark.normal
def test_a_dask_cluster_builds_the_same_bytes_though_a_worker_is_killed(
    catalogue, built, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    killed = []
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        processes = list(client.run(os.getpid).values())

        def kill_one(progress):
            if not killed:
                os.kill(processes[0], signal.SIGKILL)
                killed.append(progress.done)

        report = build_library(
            catalogue, tmp_path / "out", executor=client.get_executor(), progress=kill_one
        )
    assert killed == [1]
    assert report.failures == ()
    assert report.compiled + report.cached == 8  # what the dead worker had done is in the cache
    for path in built.glob("objects/*"):
        assert (tmp_path / "out" / "objects" / path.name).read_bytes() == path.read_bytes()
    made, expected = (p / "manifest.json" for p in (tmp_path / "out", built))
    assert made.read_bytes() == expected.read_bytes()
