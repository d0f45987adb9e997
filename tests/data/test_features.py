"""What columns become: every kind of feature and slot, whatever the files are."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from flota import _core
from flota.communicator.local import LocalCommunicator
from flota.communicator.optimizer import DistributedOptimizer
from flota.data import Batch, Criteo, Csv, Dense, Features, Ignored, Label, Parquet, Slot, Sparse
from flota.data.formats.text import column_text
from flota.data.slots import Slots
from flota.errors import DataError, InvalidArgument
from flota.nn import EmbeddingCollection
from flota.nn.naming import reset_names

WORD = (1 << 64) - 1


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
    return z ^ (z >> 31)


def hash_text(salt, text):
    """The definition in native/data/text.h, said again."""
    data = text.encode()
    words = np.frombuffer(data + bytes(-len(data) % 8), "<u8").tolist()
    for word in words:
        salt = mix(salt ^ word)
    return mix((salt + len(data) * 0x9E3779B97F4A7C15) & WORD)


def hashed(space, text, buckets=None):
    hash = hash_text(hash_text(0, space), text)
    return hash >> 1 if buckets is None else hash % buckets


TEXTS = ["", "a", "68fd1e64", "68fd1e640", "exactly 16 bytes", "Zürich", "a text of many more than eight bytes", "\x00"]


# --- hashes ---


@pytest.mark.parametrize("text", TEXTS)
def test_the_core_hashes_by_the_definition(text):
    assert _core.hash_text(5, text.encode()) == hash_text(5, text)


@pytest.mark.parametrize("buckets", [None, 1000, 1])
def test_a_text_has_the_same_id_whatever_the_file(write, tmp_path, dataset, buckets):
    features = Features([Dense("x"), Sparse("C1", buckets=buckets)])
    expected = [hashed("C1", text, buckets) for text in TEXTS]
    criteo = "".join("1" + "\t" * 14 + text + "\t" * 25 + "\n" for text in TEXTS)
    (batch,) = dataset([write("criteo", criteo)], format=Criteo(buckets=buckets))
    assert batch.ids[:, 0].tolist() == expected
    (batch,) = dataset([write("csv", "C1,x\n" + "".join(f'"{text}",0\n' for text in TEXTS))], format=Csv(features))
    assert batch.ids[:, 0].tolist() == expected
    pa.parquet.write_table(pa.table({"C1": TEXTS, "x": [0] * len(TEXTS)}), tmp_path / "parquet")
    (batch,) = dataset([str(tmp_path / "parquet")], format=Parquet(features))
    assert batch.ids[:, 0].tolist() == expected


def test_columns_of_one_space_have_the_same_ids(write, dataset):
    features = Features([Sparse("item"), Sparse("seen", many="|", space="item"), Sparse("other")])
    (batch,) = dataset([write("csv", "item,seen,other\na,b|a,a\n")], format=Csv(features))
    assert batch.ids["item"].tolist() == [hashed("item", "a")]
    assert batch.ids["seen"][0].tolist() == [hashed("item", "b"), hashed("item", "a")]
    assert batch.ids["other"].tolist() == [hashed("other", "a")] != batch.ids["item"].tolist()


# --- every kind of column ---

EVERYTHING = Features(
    [
        Label("click"),
        Label("watched", binary=False),
        Dense("plain"),
        Dense("scaled", shift=-1.0, scale=2.0, missing=-5.0),
        Dense("count", log1p=True),
        Sparse("hashed"),
        Sparse("bucket", buckets=10, missing=7),
        Sparse("raw", raw=True, missing=0),
        Sparse("word", vocabulary=["AT", "DE"]),
        Sparse("words", vocabulary=["AT", "DE"], many="|"),
        Sparse("raws", raw=True, many=" "),
    ]
)
ROWS = [
    ["1", "0.5", "2", "3", "7", "x", "y", "12", "DE", "DE|FR|AT", "5 6"],
    ["0", "-3", "", "", "-4", "", "", "", "", "", ""],
    ["0", "0", "1e2", "-1", "", "x", "y", "-7", "FR", "||AT|", "18446744073709551615"],
]


def check_everything(batch):
    assert isinstance(batch, Batch)
    assert batch.label.tolist() == [[1.0, 0.5], [0.0, -3.0], [0.0, 0.0]]
    assert batch.dense[:, :2].tolist() == [[2.0, 2.0], [0.0, -5.0], [100.0, 0.0]]
    assert torch.equal(batch.dense[:, 2], torch.tensor([7.0, 0.0, 0.0]).log1p())
    assert list(batch.ids) == EVERYTHING.sparse
    assert batch.ids["hashed"].tolist() == [hashed("hashed", text) for text in ("x", "", "x")]
    assert batch.ids["bucket"].tolist() == [hashed("bucket", "y", 10), 7, hashed("bucket", "y", 10)]
    assert batch.ids["raw"].tolist() == [12, 0, -7]
    assert batch.ids["word"].tolist() == [2, 0, 0]
    assert [part.tolist() for part in batch.ids["words"]] == [[2, 0, 1, 1], [0, 3, 3]]
    assert [part.tolist() for part in batch.ids["raws"]] == [[5, 6, -1], [0, 2, 2]]
    assert {part.dtype for part in (batch.label, batch.dense)} == {torch.float32}
    assert batch.ids["raw"].dtype == batch.ids["words"][0].dtype == batch.ids["words"][1].dtype == torch.int64


def test_every_kind_of_column_in_csv(write, dataset):
    names = [column.name for column in EVERYTHING.columns]
    text = "\n".join(";".join(row) for row in [names, *ROWS])
    check_everything(*dataset([write("csv", text)], format=Csv(EVERYTHING, delimiter=";")))


def test_every_kind_of_column_in_parquet(tmp_path, dataset):
    names = [column.name for column in EVERYTHING.columns]
    columns = {name: pa.array([row[place] or None for row in ROWS], pa.string()) for place, name in enumerate(names)}
    pa.parquet.write_table(pa.table(columns), tmp_path / "p")
    check_everything(*dataset([str(tmp_path / "p")], format=Parquet(EVERYTHING)))


def test_every_kind_of_column_in_text(write, dataset):
    """The reader of Criteo's format is one for any columns between tabs."""
    tabs = SimpleNamespace(schema=EVERYTHING, reader=lambda: column_text(EVERYTHING, "\t"))
    check_everything(*dataset([write("tsv", "\n".join("\t".join(row) for row in ROWS))], format=tabs))


def test_columns_that_are_not_there_are_empty(write, dataset):
    (batch,) = dataset([write("csv", "x\n5\n6\n")], format=Csv(Features([Dense("x")])))
    assert (batch.dense.shape, batch.ids.shape, batch.label.shape) == ((2, 1), (2, 0), (2, 0))
    (batch,) = dataset([write("csv", "a\n5\n6\n")], format=Csv(Features([Sparse("a", many=True), Label("a2")][:1])))
    assert (batch.dense.shape, batch.label.shape) == ((2, 0), (2, 0))


# --- slot text ---


def test_slots_become_matrices_and_lists(write, dataset):
    use_var = [
        Slot("ids"),
        Slot("pair", (2,)),
        Slot("square", (2, 2), "float32"),
        Slot("floats", None, "float32"),
        Slot("scalar", ()),
    ]
    text = "3 1 -2 18446744073709551615 2 3 4 4 .5 1e1 +2 -3 1 7.5 1 9\r\n0 2  5\t6 4 1 2 3 4 0 1 8"
    (batch,) = dataset([write("slots", text)], use_var=use_var)
    assert [part.tolist() for part in batch["ids"]] == [[1, -2, -1], [0, 3]]
    assert batch["pair"].tolist() == [[3, 4], [5, 6]]
    assert batch["square"].tolist() == [[[0.5, 10.0], [2.0, -3.0]], [[1.0, 2.0], [3.0, 4.0]]]
    assert [part.tolist() for part in batch["floats"]] == [[7.5], [0, 1]]
    assert batch["scalar"].tolist() == [9, 8]
    assert (batch["pair"].dtype, batch["floats"][0].dtype) == (torch.int64, torch.float32)


def test_features_may_be_filled_by_slot_text(write, dataset):
    features = Features([Label("label"), Sparse("a", raw=True), Sparse("b", raw=True, many=True), Dense("x")])
    (batch,) = dataset([write("slots", "1 1 1 5 2 6 7 1 .5\n1 0 1 8 0 1 2\n")], schema=features)
    assert (batch.label.tolist(), batch.dense.tolist()) == ([1.0, 0.0], [[0.5], [2.0]])
    assert batch.ids["a"].tolist() == [5, 8]
    assert [part.tolist() for part in batch.ids["b"]] == [[6, 7], [0, 2]]


def test_a_label_in_slot_text_is_0_or_1(write, dataset):
    features = Features([Label("label"), Sparse("a", raw=True)])
    with pytest.raises(DataError, match="line 2: the label '2' of slot 'label' is neither 0 nor 1"):
        list(dataset([write("slots", "1 1 1 5\n1 2 1 5\n")], schema=features))


@pytest.mark.parametrize(
    ("shape", "dtype", "lod_level", "slot"),
    [
        ([-1, 1], "int64", 0, Slot("v", (1,))),
        ([None, 13], "VarType.FP32", 0, Slot("v", (13,), "float32")),
        ([-1], "paddle.int32", 0, Slot("v", (1,))),
        ([-1, 1], torch.int64, 1, Slot("v")),
        ([4], torch.float32, 0, Slot("v", (4,), "float32")),
    ],
)
def test_variables_are_taken_as_slots(shape, dtype, lod_level, slot):
    variable = SimpleNamespace(name="v", shape=shape, dtype=dtype, lod_level=lod_level)
    assert Slot.of(variable) == slot


# --- models ---


@pytest.mark.parametrize("many", [False, True])
def test_an_embedding_collection_takes_the_ids_as_they_are(write, dataset, many):
    reset_names()
    features = Features([Label(), Sparse("a"), Sparse("b", many="|" if many else False), Sparse("c", raw=True)])
    embedding = EmbeddingCollection(features.sparse, dim=4)
    optimizer = DistributedOptimizer(torch.optim.SGD(embedding.parameters(), lr=0.1))
    optimizer.communicator = LocalCommunicator(optimizer)
    (batch,) = dataset([write("csv", "label,a,b,c\n1,x,p|q,3\n0,y,,4\n")], format=Csv(features))
    rows = embedding(batch.ids)
    assert rows.reshape(2, -1).shape == (2, 12)
    rows.sum().backward()
    optimizer.step()


# --- what makes no sense ---

REFUSED = {
    "nothing to learn from": (lambda: Features([Label()]), "at least one Dense or Sparse"),
    "the same name": (lambda: Features([Dense("a"), Sparse("a")]), "the same name: a"),
    "a name": (lambda: Features(["a"]), "features are Dense, Sparse, Label and Ignored columns, not 'a'"),
    "log1p and scale": (lambda: Dense("a", log1p=True, scale=2.0), "no effect with log1p"),
    "scale 0": (lambda: Dense("a", scale=0.0), "scale must not be 0"),
    "raw words": (lambda: Sparse("a", raw=True, vocabulary=["x"]), "raw or by a vocabulary, not both"),
    "raw buckets": (lambda: Sparse("a", raw=True, buckets=5), "buckets and space are for hashed ids"),
    "a space for words": (lambda: Sparse("a", vocabulary=["x"], space="b"), "buckets and space are for hashed ids"),
    "no buckets": (lambda: Sparse("a", buckets=0), "buckets must be a whole number from 1"),
    "one word": (lambda: Sparse("a", vocabulary="abc"), "vocabulary must be a list of texts, not 'abc'"),
    "numbers": (lambda: Sparse("a", vocabulary=[1]), "vocabulary must be a list of texts"),
    "a word twice": (lambda: Sparse("a", vocabulary=["x", "y", "x"]), "vocabulary has 'x' twice"),
    "two characters": (lambda: Sparse("a", many="||"), "many must be True or one ASCII character"),
    "no ASCII": (lambda: Sparse("a", many="é"), "many must be True or one ASCII character"),
    "none missing": (lambda: Sparse("a", many=True, missing=0), "simply empty"),
    "not exact": (lambda: Sparse("a", missing=(1 << 53) + 1), "missing must be a whole number"),
    "hashes in slots": (lambda: Features([Sparse("a")]).slots(), r"declare Sparse\('a', raw=True\)"),
    "separators in slots": (lambda: Features([Sparse("a", raw=True, many="|")]).slots(), "counts its values"),
    "missing in slots": (lambda: Features([Sparse("a", raw=True, missing=3)]).slots(), "would have no effect"),
    "changed numbers in slots": (lambda: Features([Dense("a", log1p=True)]).slots(), "holds final numbers"),
    "ignored slots": (lambda: Features([Dense("a"), Ignored("b")]).slots(), "cannot leave out slot 'b'"),
    "a dtype": (lambda: Slot("a", dtype="float64"), "dtype must be 'int64' or 'float32', not 'float64'"),
    "a shape": (lambda: Slot("a", 3), r"shape must be lengths such as \(1,\) or None, not 3"),
    "an empty shape": (lambda: Slot("a", (0,)), "each length in the shape of slot 'a'"),
    "no variable": (lambda: Slots([3]), "use_var takes slots, names, and variables"),
    "a variable of texts": (
        lambda: Slot.of(SimpleNamespace(name="v", shape=[1], dtype="str")),
        "variable 'v': slot text holds whole numbers and floats, not str",
    ),
    "a delimiter": (lambda: Csv(EVERYTHING, delimiter="||"), "delimiter must be one ASCII character"),
    "a quote": (lambda: Csv(EVERYTHING, delimiter='"'), "delimiter must be one ASCII character"),
    "counts": (lambda: Criteo(counts="raw"), "counts must be 'classic' or 'log1p', not 'raw'"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "says"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused(make, says):
    with pytest.raises(InvalidArgument, match=says):
        make()
