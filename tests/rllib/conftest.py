"""One local Ray for all tests of this folder; what RLlib itself warns of is no error of ours."""

import logging
from pathlib import Path

import pytest
import ray

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            # RLlib builds its own modules by deprecated keywords, and leaves sockets to the
            # garbage collector.
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session", autouse=True)
def local_ray():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield
    ray.shutdown()
