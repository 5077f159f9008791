"""Pictures of measures: they can be drawn of any release, constant measures and missing matches included."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernels.prediction import Prediction
from sfumato.measures.privacy.linkage import match_rows
from sfumato.measures.utility.kernel_components import KernelComponents, component_tests
from sfumato.report.figures_measures import components, distributions, matches
from sfumato.report.picture import png

DRAW = np.random.default_rng(0)


def measured(shift=0.0, constant=False):
    numbers = np.ones((3, 80)) if constant else DRAW.random((3, 80)) + shift
    return Prediction(*numbers, DRAW.integers(80, size=80))


def shown(figure):
    """Draw a figure and return its texts."""
    assert png(figure, dots_per_inch=40).startswith(b"\x89PNG")
    legend = [text.get_text() for one in figure.legends for text in one.get_texts()]
    return " ".join(legend + [text.get_text() for text in figure.texts])


def test_distributions_name_every_release_and_the_reference():
    texts = shown(distributions({"swap": measured(0.2), "groups": measured(constant=True)}, measured()))
    assert "swap" in texts
    assert "groups" in texts
    assert "reference" in texts


@pytest.mark.parametrize("origin", [np.arange(80), np.full(80, 5)], ids=["some right", "hardly any right"])
def test_matches_show_correct_and_wrong_ones(origin):
    found, people = measured(), np.arange(80)
    alike = measured(constant=True)
    figure = matches(
        {"noise": (found, match_rows(found, people, origin)), "groups": (alike, match_rows(alike, people, origin))}
    )
    assert "correct matches" in shown(figure)
    assert len(figure.axes) == 6
    assert "of" in figure.axes[0].get_title(loc="left")


def test_components_are_drawn_in_pairs():
    original, other = DRAW.normal(size=(120, 4)), DRAW.normal(size=(100, 4))
    kernel = KernelComponents.of(original, generator=DRAW, components=6)
    tests = component_tests(kernel, original, other, DRAW)
    figure = components(kernel.project(original), kernel.project(other), tests, name="swap", shown=3)
    assert len(figure.axes) == 9
    assert "swap" in shown(figure)
