"""Every optimizer trains on servers as it does alone: 20 steps of a small model with one server and one worker."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_optimizer_goldens import BATCHES, SETTINGS, Setting
from test_optimizers import Trained, advance

import flota
from flota import Async, DistributedStrategy, Sync, _core
from flota.paddle import mode
from flota.paddle.distributed import fleet
from flota.paddle.graph.scope import scope_guard
from flota.roles import LocalRoleMaker, Role, UserDefinedRoleMaker

SECRET = "a secret for the tests of optimizers"


def _rows(make: Callable[[Any], Any], **own: Any) -> Setting:
    return Setting(make, {"table": lambda p: own}, sparse=True)


# Tables, by every optimizer that trains them.
ROWS = {
    "rows_momentum": _rows(lambda p: p.optimizer.Momentum(0.05, use_nesterov=True, weight_decay=0.05)),
    "rows_adagrad_decay": _rows(
        lambda p: p.optimizer.Adagrad(0.1, initial_accumulator_value=0.1, weight_decay=p.regularizer.L1Decay(0.02))
    ),
    "rows_adam": _rows(lambda p: p.optimizer.Adam(0.02), learning_rate=2.0),
    "rows_adam_lazy": _rows(lambda p: p.optimizer.Adam(0.02, epsilon=1e-2, lazy_mode=True, weight_decay=0.05)),
    "rows_adamw": _rows(lambda p: p.optimizer.AdamW(0.02, weight_decay=0.3)),
    "rows_adamw_lazy": _rows(lambda p: p.optimizer.AdamW(0.02, epsilon=1e-2, lazy_mode=True, weight_decay=0.3)),
    "rows_adamax": _rows(lambda p: p.optimizer.Adamax(0.02, epsilon=1e-2, weight_decay=0.05)),
    "rows_rmsprop": _rows(lambda p: p.optimizer.RMSProp(0.01, 0.9, 1e-3, 0.5, centered=True, weight_decay=0.05)),
    "rows_rmsprop_global_norm": _rows(lambda p: p.optimizer.RMSProp(0.01, grad_clip=p.nn.ClipGradByGlobalNorm(0.3))),
    "rows_ftrl": _rows(lambda p: p.optimizer.Ftrl(0.1, l1=0.01, l2=0.1, weight_decay=0.05), learning_rate=2.0),
}
ALL = SETTINGS | ROWS

# In async mode a row is pulled while the push before it is under way; a bound of 0 has the worker wait for it.
MODES = {"sync": Sync(), "async": Async(max_staleness=0), "async_in_step": Async()}
CASES = [(name, how) for name in ALL for how in ("sync", "async" if ALL[name].sparse else "async_in_step")]

# The program in this process, which is the worker of a job with a server of its own, or (None) with none.
Served = Callable[[Setting, Sync | Async | None], AbstractContextManager[Trained]]


class InJob(Trained):
    """The same program in a job's worker."""

    def __init__(self, setting: Setting, strategy: DistributedStrategy) -> None:
        self._strategy = strategy
        super().__init__(setting)

    def minimize(self) -> None:
        fleet.distributed_optimizer(self.optimizer, self._strategy).minimize(self.loss)


@contextmanager
def _server() -> Iterator[UserDefinedRoleMaker]:
    options = _core.ServerOptions()
    options.secret, options.index, options.count = SECRET, 0, 1
    server = _core.Server.make(options)
    server.listen()
    try:
        yield UserDefinedRoleMaker(0, Role.WORKER, 1, [server.endpoint])
    finally:
        server.stop()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Jobs. Operations are recorded."""
    monkeypatch.setenv("FLOTA_SECRET", SECRET)

    @contextmanager
    def job(setting: Setting, how: Sync | Async | None) -> Iterator[Trained]:
        with ExitStack() as stack:
            fleet.init(LocalRoleMaker() if how is None else stack.enter_context(_server()))
            trained = InJob(setting, DistributedStrategy(how or Sync()))
            stack.enter_context(scope_guard(trained.scope))
            fleet.init_worker()
            stack.callback(fleet.stop_worker)
            yield trained

    mode.enable_static()
    yield job
    mode.disable_static()


def train(trained: Trained, batches: list[dict[str, np.ndarray]]) -> list[float]:
    losses = []
    for batch in batches:
        losses.append(trained.step(batch))
        advance(trained.optimizer)
    return losses


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for part, value in wanted.items():
        np.testing.assert_allclose(found[part], value, rtol=1e-5, atol=1e-6, err_msg=part)


@pytest.mark.parametrize(("name", "how"), CASES)
def test_servers_train_as_one_process_does(served: Served, name: str, how: str) -> None:
    alone = Trained(ALL[name])
    wanted = {"losses": train(alone, BATCHES), **alone.values()}
    with served(ALL[name], MODES[how]) as trained:
        losses = train(trained, BATCHES)
        fleet.barrier_worker()  # all is applied
        assert_same({"losses": losses, **trained.values()}, wanted)


@pytest.mark.parametrize("first", [None, Sync()], ids=["to_servers", "from_servers"])
@pytest.mark.parametrize(
    "name", ["rmsprop_centered", "rows_rmsprop", "rows_adamax", "rows_adam_lazy", "lamb", "lamb_without_decay", "ftrl"]
)
def test_what_was_saved_goes_on_elsewhere(served: Served, tmp_path: Path, name: str, first: Sync | None) -> None:
    alone = Trained(ALL[name])
    train(alone, BATCHES)
    with served(ALL[name], first) as trained:
        train(trained, BATCHES[:8])
        flota.save_persistables(tmp_path / "saved")
    with served(ALL[name], None if first else Sync()) as trained:
        flota.load_model(tmp_path / "saved")
        train(trained, BATCHES[8:])
        assert_same(trained.values(), alone.values())
