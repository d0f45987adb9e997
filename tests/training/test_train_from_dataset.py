"""Training and testing over a data set by one call."""

import re
import threading

import pytest
import torch

import flota
from flota import fleet as fleet_module
from flota import workers
from flota.data import Batch, read_criteo
from flota.data.synthetic import Clicks
from flota.errors import InvalidArgument
from flota.metrics import roc_auc

LOSS = torch.nn.BCEWithLogitsLoss()
DATA = Clicks(6000, vocabulary=2000)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = flota.nn.EmbeddingCollection(26, 4, name="ids")
        self.dense = torch.nn.Linear(26 * 4 + 13, 1)

    def forward(self, dense, ids):
        return self.dense(torch.cat([self.embedding(ids).flatten(1), dense], dim=1)).squeeze(1)


class WithLoss(torch.nn.Module):
    """A model that computes its own loss."""

    def __init__(self, returns):
        super().__init__()
        self.model = Model()
        self.returns = returns

    def forward(self, batch):
        logits = self.model(batch.dense, batch.ids)
        return self.returns(LOSS(logits, batch.label), logits.sigmoid(), batch.label)


@pytest.fixture(autouse=True)
def fleet(monkeypatch):
    """A process of its own, as far as flota knows."""
    fresh = fleet_module.Fleet()
    monkeypatch.setattr(fleet_module, "fleet", fresh)
    monkeypatch.setattr("flota.training.loop.fleet", fresh)
    yield fresh
    workers.meet(workers.Alone())


def started(fleet, model, lr=0.05):
    fleet.init(flota.LocalRoleMaker())
    optimizer = fleet.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=lr))
    fleet.init_worker()
    return optimizer


def batches():
    return list(DATA.batches(100))


def parameters(model):
    return [parameter.detach().clone() for parameter in model.dense.parameters()]


def test_a_model_with_a_loss_is_trained_as_a_loop_would(fleet):
    model = Model()
    started(fleet, model)
    trained = flota.train_from_dataset(model, batches(), loss=LOSS)
    once = parameters(model)

    by_hand = Model()
    optimizer = started(fleet_module.Fleet(), by_hand)
    losses = []
    for dense, ids, label in batches():
        loss = LOSS(by_hand(dense, ids), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for mine, theirs in zip(once, parameters(by_hand), strict=True):
        assert torch.equal(mine, theirs)
    assert (trained.batches, trained.samples) == (60, 6000)
    assert trained.loss == pytest.approx(sum(losses) / 60, rel=1e-5)
    assert 0.6 < trained.auc < 1.0


@pytest.mark.parametrize(
    "returns",
    [
        lambda loss, scores, label: loss,
        lambda loss, scores, label: (loss, scores, label),
        lambda loss, scores, label: {"loss": loss, "prediction": scores, "label": label, "mean": scores.mean()},
    ],
    ids=["loss", "tuple", "mapping"],
)
def test_a_model_may_compute_its_own_loss(fleet, returns):
    model = WithLoss(returns)
    started(fleet, model)
    first = flota.train_from_dataset(model, batches())
    second = flota.train_from_dataset(model, batches())
    assert second.loss < first.loss


def test_a_function_does_its_own_steps(fleet):
    model = Model()
    optimizer = started(fleet, model)
    seen = []

    def step(batch):
        loss = LOSS(model(batch.dense, batch.ids), batch.label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(len(batch.label))
        return loss

    assert flota.train_from_dataset(step, batches()).samples == sum(seen) == 6000
    assert optimizer.steps == 60


def test_fetches_are_printed_as_the_documents_print_them(fleet, capsys):
    model = WithLoss(
        lambda loss, scores, label: {"loss": loss, "prediction": scores, "label": label, "mean": scores.mean()}
    )
    started(fleet, model)
    counter = iter(range(100))
    flota.train_from_dataset(
        model,
        batches(),
        fetch_list=["auc", "loss", "batch_auc", "mean", lambda: next(counter)],
        fetch_info=["auc", "cost", "last", "mean", "calls"],
        print_period=25,
    )
    lines = capsys.readouterr().out.splitlines()
    number = r"\[\d\.\d+\]"
    pattern = r"time: \[\d{4}-\d\d-\d\d [\d:]{8}\], batch: \[%d\], " + "".join(
        f"{name}: {number}, " for name in ("auc", "cost", "last", "mean")
    )
    assert len(lines) == 2
    for line, batch, call in zip(lines, (25, 50), (0, 1), strict=True):
        assert re.fullmatch(pattern % batch + rf"calls: \[{call}\]", line), line


def test_debug_says_where_the_time_went(fleet, capsys):
    model = Model()
    started(fleet, model)
    flota.train_from_dataset(model, batches(), loss=LOSS, debug=True, print_period=60)
    (line,) = capsys.readouterr().out.splitlines()
    assert re.match(r"batch 60: wait for data .* s \(\d+%\), forward .*, backward .*, step ", line), line


def test_a_progress_bar_shows_speed_loss_and_auc(fleet, capsys):
    model = Model()
    started(fleet, model)
    flota.train_from_dataset(model, batches(), loss=LOSS, progress=True)
    shown = capsys.readouterr().err
    assert re.search(r"60/60.*samples/s · loss 0\.\d{4} · AUC 0\.\d{4}", shown), shown


def test_testing_changes_nothing_and_makes_no_rows(fleet):
    model = Model()
    optimizer = started(fleet, model)
    train, test = DATA.split(0.5)
    flota.train_from_dataset(model, train.batches(100), loss=LOSS)
    rows, before = model.embedding.weight.store.table.rows, parameters(model)
    tested = flota.infer_from_dataset(model, test.batches(64), loss=LOSS)
    assert model.training
    assert optimizer.steps == 30
    assert model.embedding.weight.store.table.rows == rows
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(before, parameters(model), strict=True))
    with torch.no_grad():
        model.eval()
        scores = torch.cat([model(dense, ids) for dense, ids, _ in test.batches(64)])
    labels = torch.cat([label for _, _, label in test.batches(64)])
    assert tested.samples == 3000
    assert tested.auc == pytest.approx(roc_auc(scores, labels), abs=2e-4)
    assert tested.loss == pytest.approx(LOSS(scores, labels).item(), rel=1e-5)


def test_alone_a_data_set_is_read_ahead_by_its_own_threads_only(fleet, tmp_path):
    model = Model()
    started(fleet, model)
    files = DATA.write(tmp_path, files=2)
    dataset = read_criteo(files, 100, counts="log1p")
    seen = []

    def step(batch):
        seen.append({thread.name for thread in threading.enumerate()})
        return LOSS(model(batch.dense, batch.ids), batch.label)

    assert flota.train_from_dataset(step, dataset).samples == 6000
    assert any("flota reader 0" in names for names in seen)
    assert not any("flota prefetch" in names for names in seen)
    for batch in flota.prefetch(dataset, model):
        assert len(batch.label) == 100
        break
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("flota reader")]


def test_any_data_loader_will_do(fleet):
    model = Model()
    started(fleet, model)
    dense, ids, label = (torch.cat(columns) for columns in zip(*batches(), strict=True))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(dense, ids, label), batch_size=64)
    assert flota.train_from_dataset(model, loader, loss=LOSS).samples == 6000


@pytest.mark.parametrize("threads", [2, 4])
def test_trainer_threads_train_all_batches_of_one_model(fleet, threads):
    model = Model()
    optimizer = started(fleet, model)
    first = flota.train_from_dataset(model, batches(), loss=LOSS, thread_num=threads)
    second = flota.train_from_dataset(model, batches(), loss=LOSS, thread_num=threads)
    assert (first.batches, first.samples, optimizer.steps) == (60, 6000, 120)
    assert second.loss < first.loss
    assert second.auc > 0.7


def test_the_first_error_of_a_trainer_thread_ends_all(fleet):
    model = Model()
    started(fleet, model)
    data = batches()
    data[20] = Batch(data[20].dense[:, :5], data[20].ids, data[20].label)
    with pytest.raises(RuntimeError, match=r"shape|size"):
        flota.train_from_dataset(model, data, loss=LOSS, thread_num=3)


def test_an_error_of_the_data_is_raised_after_what_came_before(fleet):
    model = Model()
    optimizer = started(fleet, model)

    def broken():
        yield from batches()[:7]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        flota.train_from_dataset(model, broken(), loss=LOSS)
    assert optimizer.steps == 7


def test_a_step_may_return_plain_numbers(fleet):
    started(fleet, Model())
    for returned in ({"loss": 0.5}, (0.5, torch.tensor([0.1, 0.9]), torch.tensor([0.0, 1.0])), 0.5):
        assert flota.train_from_dataset(lambda batch, it=returned: it, batches()).loss == 0.5


def test_predictions_may_have_a_column_for_each_class(fleet):
    started(fleet, Model())
    scores = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    returned = {"loss": 0.5, "prediction": scores, "label": torch.tensor([0, 1, 1])}
    assert flota.train_from_dataset(lambda batch: returned, batches()).auc == 1.0


def step_without_anything(batch):
    return None


@pytest.mark.parametrize(
    ("what", "settings", "says"),
    [
        ("model", {"fetch_list": ["loss"], "fetch_info": ["a", "b"]}, "fetch_info has 2 names for the 1 of fetch_list"),
        (
            "model",
            {"fetch_list": ["losss"], "print_period": 1},
            "'losss'.*no such value; there are: auc, batch_auc, loss",
        ),
        ("model", {"loss": None}, "with.*loss|forward"),
        ("model", {"loss": torch.nn.MSELoss(), "fetch_list": ["auc"], "print_period": 1}, "nothing tells predictions"),
        ("model", {"print_period": 0}, "print_period must be a whole number from 1"),
        ("model", {"thread_num": 0}, "thread_num must be a whole number from 1"),
        ("function", {}, "loss=… goes with a model"),
        ("function", {"loss": None, "thread_num": 2}, "a function's steps cannot run side by side"),
    ],
)
def test_what_makes_no_sense_is_refused(fleet, what, settings, says):
    model = Model()
    started(fleet, model)
    with pytest.raises((InvalidArgument, TypeError), match=says):
        flota.train_from_dataset(
            model if what == "model" else step_without_anything, batches(), **{"loss": LOSS, **settings}
        )


def test_a_model_needs_an_optimizer(fleet):
    with pytest.raises(InvalidArgument, match=r"call flota\.distributed_optimizer"):
        flota.train_from_dataset(Model(), batches(), loss=LOSS)
