"""The formula of a model: ``y ~ a + C(b) + a:b + offset(e)``, or ``survival(time, event) ~ a``."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.errors import StatisticError
from sfumato.params import Probability, require_choice
from sfumato.statistics.bounds.score_equation import FAMILIES
from sfumato.statistics.cursor import Cursor, require_name
from sfumato.statistics.model_fit import Model, ModelFactor

COX = "cox"
SURVIVAL = ("survival", "surv")


def parse_formula(
    text: str,
    names: Sequence[str],
    *,
    family: str = "gaussian",
    weights: str | None = None,
    confidence: float = 0.95,
    named: bool = False,
) -> Model:
    """Read ``y ~ a + C(b) + a:b + offset(e)``; ``a * b`` stands for ``a + b + a:b``, and ``0 +`` for no intercept.

    The left side of proportional hazards is ``survival(time, event)``. ``named`` says that the model was asked for as a
    statistic.
    """
    require_choice(family, name="family", choices=(*FAMILIES, COX))
    Probability().check(confidence, "confidence")
    if weights is not None:
        require_name(weights, names)
    cursor = Cursor(text, names or None, derived=True, symbols="*:")
    response, event = _read_outcome(cursor, family)
    cursor.expect("~", "'~' and the terms")
    terms, offset, intercept = _read_right_side(cursor)
    if family == COX:
        from sfumato.statistics.hazard_model import HazardModel

        return HazardModel(response, terms, family, False, offset, weights, confidence, event=event)
    return Model(response, terms, family, intercept, offset, weights, confidence, named=named)


def read_model(family: str, cursor: Cursor) -> Model:
    """Read a formula up to the parenthesis that closes it."""
    text, end, depth = cursor.text, cursor.at, 1
    while end < len(text) and (depth := depth + {"(": 1, ")": -1}.get(text[end], 0)):
        end += 1
    formula, cursor.at = text[cursor.at : end], end
    return parse_formula(formula, cursor.names or (), family=family, named=True)


def _read_outcome(cursor: Cursor, family: str) -> tuple[str, str]:
    """Read a response, or the time and the event of ``survival(time, event)``."""
    start = cursor.at
    is_survival = not cursor.is_known_name() and cursor.identifier() in SURVIVAL and cursor.accept("(")
    if is_survival != (family == COX):
        fix = 'fit("survival(time, event) ~ age", family="cox")'
        raise StatisticError("The family 'cox' has the outcome survival(time, event).", found=cursor.text, fix=fix)
    if not is_survival:
        cursor.at = start
        return cursor.factor(), ""
    time = cursor.name()
    cursor.expect(",", "',' and the column of events")
    event = cursor.name()
    cursor.expect(")")
    return time, event


def _read_right_side(cursor: Cursor) -> tuple[tuple[tuple[ModelFactor, ...], ...], str | None, bool]:
    """Read terms, an offset, and whether there is an intercept."""
    terms: dict[tuple[ModelFactor, ...], None] = {}
    offset, intercept = None, True
    while True:
        if cursor.accept("0"):
            intercept = False
        elif not cursor.accept("1"):
            start = cursor.at
            if not cursor.is_known_name() and cursor.identifier() == "offset" and cursor.accept("("):
                offset = cursor.column()
                cursor.expect(")")
            else:
                cursor.at = start
                terms |= dict.fromkeys(_read_term(cursor))
        if cursor.accept("-"):
            cursor.expect("1", "'- 1', or terms with '+' between them")
            intercept = False
        if not cursor.accept("+"):
            break
    cursor.expect_end()
    return tuple(terms), offset, intercept


def _read_term(cursor: Cursor) -> list[tuple[ModelFactor, ...]]:
    """Read factors with ``:`` or ``*`` between them."""
    found: list[tuple[ModelFactor, ...]] = [(_read_factor(cursor),)]
    while True:
        if cursor.accept(":"):
            other = _read_factor(cursor)
            found = [(*one, other) for one in found]
        elif cursor.accept("*"):
            other = _read_factor(cursor)
            found = [*found, (other,), *((*one, other) for one in found)]
        else:
            return sorted(found, key=len)


def _read_factor(cursor: Cursor) -> ModelFactor:
    start = cursor.at
    if not cursor.is_known_name() and cursor.identifier() == "c" and cursor.accept("("):
        name = cursor.name()
        cursor.expect(")")
        return ModelFactor(name, as_category=True)
    cursor.at = start
    return ModelFactor(cursor.factor())
