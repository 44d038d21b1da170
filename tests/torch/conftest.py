"""What the tests of this folder share."""

import pytest

from gloo_ranks import GlooRanks

# Scripts that tests start as processes hold no tests, and do their work when they are imported.
collect_ignore = ["accelerate_resumes.py", "lightning_resumes.py", "stops_at.py"]


def _ranks(world):
    """A fixture of `world` processes, which the tests of one module share."""

    @pytest.fixture(scope="module")
    def ranks():
        processes = GlooRanks(world)
        yield processes
        processes.close()

    return ranks


one, two, three, four = map(_ranks, (1, 2, 3, 4))
