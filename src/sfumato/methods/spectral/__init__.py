"""Spectral anonymization: the data are perturbed in a basis that is adapted to them, not in the columns (TL)."""

from sfumato.methods.spectral.histograms import RecursiveHistogram as RecursiveHistogram
from sfumato.methods.spectral.histograms import SpectralHistogram as SpectralHistogram
from sfumato.methods.spectral.pica import PartitionedIca as PartitionedIca
from sfumato.methods.spectral.svd_swap import SvdSwap as SvdSwap
