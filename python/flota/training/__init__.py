"""Training from a data set by one call, as Paddle's executor does it: files in, a trained model out.

    flota.train_from_dataset(model, dataset, loss=torch.nn.BCEWithLogitsLoss(), fetch_list=["auc"], print_period=100)
    result = flota.infer_from_dataset(model, test_dataset, loss=torch.nn.BCEWithLogitsLoss())

One call is one epoch.
"""

from flota.training.loop import infer_from_dataset, train_from_dataset
from flota.training.view import Trained

__all__ = ["Trained", "infer_from_dataset", "train_from_dataset"]
