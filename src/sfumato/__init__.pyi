"""The public names, for type checkers. Written by `make generated`."""

from sfumato.assessment import assess as assess
from sfumato.disclosure.anonymity_budget import anonymity_budget as anonymity_budget
from sfumato.disclosure.group_model_records import GroupModels as GroupModels
from sfumato.disclosure.group_models import group_models as group_models
from sfumato.disclosure.individual_risk import individual_risk as individual_risk
from sfumato.disclosure.population_uniqueness import population_uniqueness as population_uniqueness
from sfumato.disclosure.sketched_search import sketched_quasi_identifiers as sketched_quasi_identifiers
from sfumato.disclosure.special_uniques import special_uniques as special_uniques
from sfumato.engines.database.database import Database as Database
from sfumato.engines.duckdb.engine import DuckDB as DuckDB
from sfumato.engines.spark.engine import Spark as Spark
from sfumato.errors import SfumatoError as SfumatoError
from sfumato.errors import SfumatoWarning as SfumatoWarning
from sfumato.examination import quasi_identifiers as quasi_identifiers
from sfumato.examination import uniqueness as uniqueness
from sfumato.measures.assess import Assessment as Assessment
from sfumato.measures.holdout import split_holdout as split_holdout
from sfumato.methods.boxes.method import Boxes as Boxes
from sfumato.methods.classical.microaggregation.method import Microaggregate as Microaggregate
from sfumato.methods.classical.noise import Noise as Noise
from sfumato.methods.classical.pram import Pram as Pram
from sfumato.methods.classical.private_sample import PrivateSample as PrivateSample
from sfumato.methods.classical.recode import Recode as Recode
from sfumato.methods.classical.shuffle import Shuffle as Shuffle
from sfumato.methods.classical.suppress import Suppress as Suppress
from sfumato.methods.classical.swap import Swap as Swap
from sfumato.methods.classical.synthesis.method import Synthesize as Synthesize
from sfumato.methods.classical.top_bottom import TopBottom as TopBottom
from sfumato.methods.probabilistic.curve import privacy_utility_curve as privacy_utility_curve
from sfumato.methods.probabilistic.generalize import Generalize as Generalize
from sfumato.methods.probabilistic.optimal_groups import OptimalGroups as OptimalGroups
from sfumato.methods.probabilistic.quantiles import Quantiles as Quantiles
from sfumato.methods.probabilistic.safe_harbor import SafeHarbor as SafeHarbor
from sfumato.methods.search_budget import SearchBudget as SearchBudget
from sfumato.methods.spectral.histograms import RecursiveHistogram as RecursiveHistogram
from sfumato.methods.spectral.histograms import SpectralHistogram as SpectralHistogram
from sfumato.methods.spectral.pica import PartitionedIca as PartitionedIca
from sfumato.methods.spectral.svd_swap import SvdSwap as SvdSwap
from sfumato.pipeline import AssessedRelease as AssessedRelease
from sfumato.pipeline import release_and_assess as release_and_assess
from sfumato.release.read import read_release as read_release
from sfumato.release.release import Release as Release
from sfumato.release.synthetic import combined_estimate as combined_estimate
from sfumato.schema.schema import Schema as Schema
from sfumato.statistics.bounds import EstimateBudget as EstimateBudget
from sfumato.statistics.combining import CombinedEstimate as CombinedEstimate
from sfumato.statistics.estimate import Estimate as Estimate
from sfumato.statistics.estimate import RegressionEstimate as RegressionEstimate
from sfumato.statistics.moment_statistics import Correlation as Correlation
from sfumato.statistics.moment_statistics import Covariance as Covariance
from sfumato.statistics.moment_statistics import Mean as Mean
from sfumato.statistics.moment_statistics import Regression as Regression
from sfumato.statistics.moment_statistics import Sd as Sd
from sfumato.statistics.moment_statistics import Variance as Variance
from sfumato.statistics.recovered_estimate import RecoveredEstimate as RecoveredEstimate
from sfumato.table.read import read as read
from sfumato.table.table import Table as Table
from sfumato.version import __version__ as __version__

NAMES: dict[str, str]
__all__: list[str]

def public_names() -> dict[str, str]: ...
