"""How good predictions are."""

from flota.metrics.ranking import auc

__all__ = ["auc"]
