"""One local Ray for all tests of this folder, and no errors from what Ray itself warns of."""

import gc
import logging

import pytest
import ray


def pytest_configure(config):
    # RLlib calls its own deprecated code, and Ray does not wait for the processes that it ends.
    for kind in ("DeprecationWarning", "ResourceWarning", "UserWarning"):
        config.addinivalue_line("filterwarnings", f"default::{kind}")
    config.addinivalue_line("filterwarnings", "default::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="session", autouse=True)
def local_ray():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield
    ray.shutdown()
    gc.collect()  # Ray's process handles warn when they go: here, not after the last test
