"""What every test shares: where the real tables lie, and how hard hypothesis tries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# The first call of a kernel compiles it, so no example has a deadline. The examples are the same on every run, so that
# a change and not chance decides whether the tests pass; HYPOTHESIS_PROFILE=thorough draws new ones, and many more.
settings.register_profile(
    "sfumato", deadline=None, max_examples=50, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("sfumato"), max_examples=1000, derandomize=False)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "sfumato")
settings.load_profile(PROFILE)
if PROFILE == "sfumato":
    # Hypothesis also draws constants of the modules that are loaded so far: which, depends on the tests before
    providers.is_local_module_file = lambda path: False

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real tables: SFUMATO_DATA, or shared/data beside the repository. Skips where there is none."""
    said = os.environ.get("SFUMATO_DATA")
    folder = Path(said) if said else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real tables are not here: set SFUMATO_DATA to their folder (looked in {folder})")
    return folder
