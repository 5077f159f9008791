"""The moments of the columns of a statistic, from as few survey questions as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.survey.questions import Answers, MomentsOf

if TYPE_CHECKING:
    from sfumato.statistics.moments import Moments
    from sfumato.statistics.statistic import Statistic
    from sfumato.survey.survey import Survey

FEW = 24  # up to this number of columns, one question about all of them is cheaper than one about each


@dataclass(frozen=True, repr=False)
class MomentsLookup:
    """The moments of columns without missing values are answered together, those of other statistics one by one."""

    position: Mapping[str, int]  # of the columns that are answered together
    joint: Moments | None
    weight: str | None  # column of sampling weights
    answers: Answers

    @classmethod
    def ask(
        cls,
        survey: Survey,
        statistics: Sequence[Statistic],
        numbers: Sequence[str],
        missing: Mapping[str, int],
        weight: str | None,
    ) -> MomentsLookup:
        """Ask for the moments of the ``statistics`` and of each of ``numbers``; ``missing`` counts missing values."""
        used = dict.fromkeys(name for statistic in statistics for name in statistic.columns)
        together = dict.fromkeys([*used, *numbers]) if len(numbers) <= FEW else used
        complete = tuple(name for name in together if not missing[name])
        position = {name: number for number, name in enumerate(complete)}
        wanted = dict.fromkeys([*(tuple(one.columns) for one in statistics), *((name,) for name in numbers)])
        questions = [MomentsOf(names, weight) for names in wanted if not all(name in position for name in names)]
        joint = MomentsOf(complete, weight)
        answers = survey.ask([*questions, joint] if complete else questions)
        return cls(position, answers[joint] if complete else None, weight, answers)

    def __call__(self, names: Sequence[str]) -> Moments:
        if self.joint is not None and all(name in self.position for name in names):
            return self.joint.select([self.position[name] for name in names])
        return self.answers[MomentsOf(tuple(names), self.weight)]
