"""How good predictions are: of this process, and of all workers.

    auc, loss = flota.metrics.Auc(window=20), flota.metrics.LogLoss()
    for features, labels in batches:
        predictions = torch.sigmoid(model(features))
        auc.update(predictions, labels)
        loss.update(predictions, labels)
        print(auc.compute_window())                     # of the last 20 batches
    print(auc.compute(), loss.compute())                # of this process
    print(auc.compute_global(), loss.compute_global())  # of all workers: all of them make these calls, in this order

The functions ``sum``, ``max``, ``min``, ``auc``, ``mae``, ``mse``, ``rmse`` and ``acc`` are those of Fleet's metrics:
they take the numbers of this worker and give the value of all workers. ``roc_auc`` is the exact AUC of scores.

Where there is no pair to rank an AUC is 0.5; a mean of nothing is NaN.
"""

from flota.metrics.classification import Accuracy, Calibration, LogLoss
from flota.metrics.grouped import GroupedAuc
from flota.metrics.metric import Metric
from flota.metrics.over_workers import acc, auc, mae, max, min, mse, rmse, sum
from flota.metrics.ranking import Auc, roc_auc
from flota.metrics.regression import MAE, MSE, RMSE

__all__ = [
    "MAE",
    "MSE",
    "RMSE",
    "Accuracy",
    "Auc",
    "Calibration",
    "GroupedAuc",
    "LogLoss",
    "Metric",
    "acc",
    "auc",
    "mae",
    "max",
    "min",
    "mse",
    "rmse",
    "roc_auc",
    "sum",
]
