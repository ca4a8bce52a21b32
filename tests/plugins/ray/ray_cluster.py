"""Ray clusters of this machine."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

# Seconds in which a node must start, on a busy machine; read when Ray is imported.
os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
pytest.importorskip("ray", reason="the extra `ray` is not installed")
from ray.cluster_utils import Cluster  # noqa: E402

from mog_assets.plugins.ray import cluster as connections  # noqa: E402

# Every node may take so much of /dev/shm; nothing of size travels through it.
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
# A node that was killed is noticed within seconds.
HEAD = {**NODE, "_system_config": {"health_check_period_ms": 500, "health_check_failure_threshold": 3}}
GONE_SECONDS = 30


def processes_of_ray(session=""):
    """Servers of Ray on this machine, of one session if it is named."""
    every = subprocess.run(["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    servers = [line for line in every.splitlines() if "/ray/" in line and ("raylet" in line or "gcs_server" in line)]
    return {line for line in servers if session in line}


@contextmanager
def running_cluster(nodes=2):
    with pytest.MonkeyPatch.context() as patch:
        # Workers get the environment in which their node was started.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)]))
        # On a busy machine they would starve.
        patch.setenv("RAY_worker_niceness", "0")
        yield from _running_cluster(nodes)


def _running_cluster(nodes):
    cluster = Cluster(initialize_head=True, head_node_args=HEAD)
    session = Path(cluster.head_node.get_session_dir_path()).name
    try:
        assert processes_of_ray(session)
        for _ in range(nodes - 1):
            cluster.add_node(**NODE)
        yield cluster
    finally:
        connections.leave()
        cluster.shutdown()
        deadline = time.monotonic() + GONE_SECONDS
        while processes_of_ray(session) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert processes_of_ray(session) == set()
