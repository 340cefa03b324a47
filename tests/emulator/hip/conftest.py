"""The process in which tests call HIP."""

import pytest

from tests.emulator.hip.process import HipProcess


@pytest.fixture(scope="session")
def hip_process():
    process = HipProcess()
    yield process
    process.close()
