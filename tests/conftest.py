"""What every test shares: where the real tables lie, and how hard hypothesis tries."""

from __future__ import annotations

import json
import math
import os
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from sfumato import randomness
from sfumato.methods import discrete_noise

# The first call of a kernel compiles it, so no example has a deadline. The examples are the same on every run, so that
# a change and not chance decides whether the tests pass; HYPOTHESIS_PROFILE=thorough draws new ones, and many more.
# For the same reason a release without a seed draws from the name of its test, and with the profile from the system.
settings.register_profile(
    "sfumato", deadline=None, max_examples=50, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("sfumato"), max_examples=1000, derandomize=False)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "sfumato")
settings.load_profile(PROFILE)
if PROFILE == "sfumato":
    # Hypothesis also draws constants of the modules that are loaded so far: which, depends on the tests before
    providers.is_local_module_file = lambda path: False

chance = random.Random()
if PROFILE == "sfumato":
    randomness.secrets = SimpleNamespace(randbits=chance.getrandbits)
    for draw in vars(discrete_noise).values():
        if "entropy" in (getattr(draw, "__kwdefaults__", None) or {}):
            draw.__kwdefaults__["entropy"] = chance.randbytes

REPOSITORY = Path(__file__).resolve().parents[1]
DURATIONS = Path(__file__).with_name("durations.json")  # seconds of each test function, rewritten by `make durations`
LONG = 0.5  # seconds: shorter ones are not recorded
took: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help=f"write {DURATIONS.name}")
    parser.addoption("--below", type=float, help="leave out test functions that took this many seconds or more")
    parser.addoption("--above", type=float, help="leave out test functions that took fewer seconds than this")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests by their time; begin with the files that take longest, so that all processes end together."""
    recorded = json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.is_file() else {}
    below, above = config.getoption("--below") or math.inf, config.getoption("--above") or 0.0
    seconds_of = {item: _seconds(item, recorded) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not above <= seconds_of[item] < below])
    items[:] = [item for item in items if above <= seconds_of[item] < below]
    of_file: Counter[str] = Counter()
    for function, seconds in recorded.items():
        of_file[function.partition("::")[0]] += seconds
    items.sort(key=lambda item: -of_file[item.nodeid.partition("::")[0]])


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> None:
    chance.seed(f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', 0)}]")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    chance.seed(item.nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    took[_function(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--record-durations") and not hasattr(session.config, "workerinput"):
        recorded = {name: round(seconds, 1) for name, seconds in took.most_common() if seconds >= LONG}
        DURATIONS.write_text(json.dumps(recorded, indent=0) + "\n", encoding="utf-8")


def _seconds(item: pytest.Item, recorded: dict[str, float]) -> float:
    """Return how long a test function took; where tests go on from one another, the longest of the file."""
    if not item.get_closest_marker("in_order"):
        return recorded.get(_function(item.nodeid), 0.0)
    file = item.nodeid.partition("::")[0]
    return max((seconds for name, seconds in recorded.items() if name.partition("::")[0] == file), default=0.0)


def _function(test: str) -> str:
    """Return the test function of a test with parameters."""
    return test.partition("[")[0]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real tables: SFUMATO_DATA, or shared/data beside the repository. Skips where there is none."""
    said = os.environ.get("SFUMATO_DATA")
    folder = Path(said) if said else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real tables are not here: set SFUMATO_DATA to their folder (looked in {folder})")
    return folder
