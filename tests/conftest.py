"""What holds for every test."""

import pytest

from mmvisattn.hosts.earlier_runs import forget_earlier_runs


@pytest.fixture(autouse=True)
def no_runner_left_behind():
    """A runner sets the scope, logger, message hub and visualizer of the process; none may reach the next test."""
    yield
    forget_earlier_runs()
