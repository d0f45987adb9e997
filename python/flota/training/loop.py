"""Training and testing over a data set."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from flota import checks
from flota.communicator.optimizer import DistributedOptimizer
from flota.errors import InvalidArgument
from flota.fleet import fleet
from flota.nn.prefetch import prefetch, prefetch_tables
from flota.strategy import Geo, Sync
from flota.training.fetching import Fetch
from flota.training.outcome import Loss, Outcome
from flota.training.replicas import Part, ReplicaTrainer, Shared, in_threads
from flota.training.trainer import ModelTrainer, Step, StepTrainer, Times, Trainer
from flota.training.view import Trained, View


def train_from_dataset(
    step_or_model: Step | torch.nn.Module,
    dataset: Iterable[Any],
    *,
    loss: Loss | None = None,
    fetch_list: Sequence[Fetch] | None = None,
    fetch_info: Sequence[str] | None = None,
    print_period: int = 100,
    debug: bool = False,
    thread_num: int = 1,
    depth: int = 1,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Trained:
    """Trains one epoch of ``dataset``: any iterable of batches.

    ``step_or_model`` is a function that is called with each batch and does all of a step; it may return a loss,
    (loss, prediction, label) or a mapping from names to values. Or it is a model: with ``loss``, batches are
    (inputs, …, label), the model is called with the inputs and ``loss`` with its prediction and the label; without,
    the model is called with the batch and returns what a function would. The job's optimizer makes the step.

    Batches are read ahead, the rows of the next ``depth`` are pulled while one computes, and pushes go out beside the
    next step. With ``device``, batches are brought there on the way.

    ``fetch_list`` names what is printed every ``print_period`` batches: "loss", "auc" (of all samples so far),
    "batch_auc" (of the last batches), what the step returns by name, or metrics. ``fetch_info`` are the names to print.
    ``debug`` prints beside them where the time went. ``progress`` is the bar; unless said, in a terminal only.

    ``thread_num`` trainer threads share a model (not a function), each on batches of its own; see
    docs/training.md for when that pays. In sync and geo mode it is 1.
    """
    view = View(fetch_list, fetch_info, print_period, debug)
    threads = checks.whole("thread_num", thread_num, 1, 256)
    optimizer = _optimizer(step_or_model)
    with view.shown("training", dataset, progress):
        if threads == 1:
            trainer = _trainer(step_or_model, loss, view.times, optimizer)
            for batch in view.timed(_prefetched(dataset, step_or_model, depth, device)):
                view.show(trainer(batch))
        else:
            _train_in_threads(threads, step_or_model, loss, dataset, optimizer, view, depth, device)
    return view.result()


@torch.no_grad()
def infer_from_dataset(
    step_or_model: Step | torch.nn.Module,
    dataset: Iterable[Any],
    *,
    loss: Loss | None = None,
    fetch_list: Sequence[Fetch] | None = None,
    fetch_info: Sequence[str] | None = None,
    print_period: int = 100,
    debug: bool = False,
    depth: int = 1,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Trained:
    """The same without training: the model is in ``eval`` mode, nothing is stepped, and ids that training never saw get
    no rows. A function is called with each batch, without gradients."""
    view = View(fetch_list, fetch_info, print_period, debug)
    model = step_or_model if isinstance(step_or_model, torch.nn.Module) else None
    was_training = model is not None and model.training
    trainer = _trainer(step_or_model, loss, view.times, None)
    # A data set's tests are passes of their own.
    source = getattr(dataset, "testing", lambda: dataset)()
    if model is not None:
        model.eval()
    try:
        with view.shown("testing", dataset, progress):
            for batch in view.timed(_prefetched(source, step_or_model, depth, device)):
                view.show(trainer(batch))
    finally:
        if model is not None:
            model.train(was_training)
    return view.result()


def _optimizer(step_or_model: Step | torch.nn.Module) -> DistributedOptimizer | None:
    if not isinstance(step_or_model, torch.nn.Module):
        return None
    optimizer = fleet.optimizer
    if optimizer is None or optimizer.communicator is None:
        raise InvalidArgument("call flota.distributed_optimizer() and flota.init_worker() before training a model")
    step_or_model.train()
    return optimizer


def _trainer(
    step_or_model: Step | torch.nn.Module, loss: Loss | None, times: Times, optimizer: DistributedOptimizer | None
) -> Trainer:
    if isinstance(step_or_model, torch.nn.Module):
        return ModelTrainer(step_or_model, loss, times, optimizer)
    if loss is not None:
        raise InvalidArgument("loss=… goes with a model: a function computes its own")
    return StepTrainer(step_or_model, times)


def _prefetched(
    dataset: Iterable[Any], step_or_model: Step | torch.nn.Module, depth: int, device: torch.device | str | None
) -> Iterator[Any]:
    if isinstance(step_or_model, torch.nn.Module):
        return prefetch(dataset, step_or_model, depth=depth, device=device)
    tables = [] if fleet.optimizer is None else [table for table, _ in fleet.optimizer.tables()]
    return prefetch_tables(dataset, tables, depth=depth, device=device)


def _train_in_threads(
    threads: int,
    model: Step | torch.nn.Module,
    loss: Loss | None,
    dataset: Iterable[Any],
    optimizer: DistributedOptimizer | None,
    view: View,
    depth: int,
    device: torch.device | str | None,
) -> None:
    if not isinstance(model, torch.nn.Module) or optimizer is None:
        raise InvalidArgument("thread_num: a function's steps cannot run side by side; give the model and a loss")
    if isinstance(fleet.mode, (Sync, Geo)) and not fleet.placement.local:
        raise InvalidArgument(
            "thread_num: in sync and geo mode a worker's steps are made one after another; start more workers"
        )
    steps = threading.Lock()
    shared = Shared(dataset, steps)

    def work(trainer: ReplicaTrainer) -> Iterator[Outcome]:
        for batch in prefetch(Part(shared), trainer.model, depth=depth, device=device):
            yield trainer(batch)

    trainers = [ReplicaTrainer(model, loss, view.times, optimizer, steps) for _ in range(threads)]
    try:
        in_threads([partial(work, trainer) for trainer in trainers], view.show)
    finally:
        shared.close()
