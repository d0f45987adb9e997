"""CSV and Parquet files: as people write them, and as they should not."""

import gzip
from decimal import Decimal
from itertools import chain

import pyarrow as pa
import pyarrow.parquet
import pytest

from flota.data import Csv, Dense, Features, Ignored, Label, Parquet, Sparse
from flota.data.formats import columnar
from flota.errors import DataError

FEATURES = Features([Label("label"), Dense("x"), Sparse("a", raw=True, missing=-1)])
LISTS = Features([Dense("x"), Sparse("texts", many=True), Sparse("ids", raw=True, many=True)])


def rows(batches):
    """(label, x, a) of each sample."""
    return [
        (label, x[0], a[0])
        for batch in batches
        for label, x, a in zip(batch.label.tolist(), batch.dense.tolist(), batch.ids.tolist(), strict=True)
    ]


def rows_and_error(made):
    """What was read before an error, and the error."""
    read = []
    with pytest.raises(DataError) as caught:
        read.extend(rows([batch]) for batch in made)
    return list(chain(*read)), str(caught.value)


@pytest.fixture
def csv(write, dataset):
    def make(text, batch_size=100, header=True, delimiter=",", features=FEATURES, name="train.csv", **settings):
        return dataset([write(name, text)], batch_size, format=Csv(features, delimiter, header), **settings)

    return make


@pytest.fixture
def parquet(tmp_path, dataset):
    def make(columns, features=FEATURES, row_group_size=None, thread_num=1, batch_size=100, **settings):
        path = tmp_path / "train.parquet"
        pa.parquet.write_table(pa.table(columns), path, row_group_size=row_group_size)
        return dataset([str(path)], batch_size, thread_num, format=Parquet(features), **settings)

    return make


# --- CSV as people write it ---

ONE = [(1.0, 2.5, 3)]

WRITTEN = {
    "plain": ("label,x,a\n1,2.5,3\n", {}),
    "other columns in another order": ('z,a,x,label\n"q,\nq",3,2.5,1\n', {}),
    "quotes": ('"label","x","a"\n"1","2.5","3"\n', {}),
    "windows": ("label,x,a\r\n1,2.5,3\r\n", {}),
    "no final newline": ("label,x,a\n1,2.5,3", {}),
    "a byte order mark": ("\ufefflabel,x,a\n1,2.5,3\n", {}),
    "blank lines": ("label,x,a\n\n1,2.5,3\n\n\n", {}),
    "no header": ("1,2.5,3\n", {"header": False}),
    "semicolons": ("label;x;a\n1;2.5;3\n", {"delimiter": ";"}),
    "tabs": ("label\tx\ta\n1\t2.5\t3\n", {"delimiter": "\t"}),
    "packed": (gzip.compress(b"label,x,a\n1,2.5,3"), {}),
}


@pytest.mark.parametrize(("text", "settings"), WRITTEN.values(), ids=WRITTEN)
def test_csv_is_read_as_people_write_it(csv, text, settings):
    assert rows(csv(text, **settings)) == ONE


@pytest.mark.parametrize("text", ["", gzip.compress(b"", mtime=0), "label,x,a", "label,x,a\n", "\n\n"])
def test_a_csv_file_without_rows_has_no_samples(csv, text):
    assert list(csv(text)) == []


def test_newlines_between_quotes_belong_to_the_text(csv):
    features = Features([Dense("x"), Sparse("t", vocabulary=["one\ntwo", 'say "hi"', "a,b"])])
    (batch,) = csv('t,x\n"one\ntwo",1\n"say ""hi""",2\n"a,b",3\n', features=features)
    assert batch.ids[:, 0].tolist() == [1, 2, 3]


def test_ignored_columns_take_their_places_where_there_is_no_header(csv):
    features = Features([Ignored("day"), Label("label"), Dense("x"), Sparse("a", raw=True)])
    assert rows(csv("monday,1,2.5,3\n", features=features, header=False)) == ONE


def test_empty_values_are_missing_ones(csv):
    assert rows(csv('label,x,a\n1,,\n0,"",""\n')) == [(1.0, 0.0, -1), (0.0, 0.0, -1)]


def test_batches_reach_over_blocks(csv, monkeypatch):
    monkeypatch.setattr(columnar, "_BLOCK", 200)
    text = "label,x,a\n" + "".join(f"{n % 2},{n},{n}\n" for n in range(300))
    batches = list(csv(text, batch_size=64))
    assert [len(batch.label) for batch in batches] == [64, 64, 64, 64, 44]
    assert rows(batches) == [(n % 2, n, n) for n in range(300)]


# --- CSV as it should not be ---

GOOD = [(1.0, 1.0, 1), (0.0, 2.0, 2)]
BAD_ROWS = {
    "no number": ("1,one,5", "column 'x': 'one' is no number"),
    "not finite": ("1,nan,5", "column 'x': 'nan' is no finite number"),
    "too large": ("1,1e300,5", "column 'x': '1e300' is too large a number"),
    "label": ("2,1,5", "column 'label': the label '2' is neither 0 nor 1"),
    "no label": (",1,5", "column 'label': it is empty"),
    "no id": ("1,1,a5", "column 'a': 'a5' is no whole number"),
    "few columns": ("1,1", "2 columns, not 3"),
    "many columns": ("1,1,5,6", "4 columns, not 3"),
}


@pytest.mark.parametrize("block", [16, 1 << 20], ids=["small blocks", "one block"])
@pytest.mark.parametrize(("bad", "says"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_named_after_the_good_ones_before_it(csv, monkeypatch, capfd, bad, says, block):
    monkeypatch.setattr(columnar, "_BLOCK", block)
    text = f"label,x,a\n1,1,1\n0,2,2\n{bad}\n1,3,3\n"
    read, error = rows_and_error(csv(text))
    assert read == GOOD
    assert error.endswith(f"train.csv, row 4: {says}")
    made = csv(text, on_error="skip")
    assert rows(made) == [*GOOD, (1.0, 3.0, 3)]
    assert (made.skipped.lines, made.skipped.files) == (1, 0)
    assert f"train.csv, row 4: {says}" in capfd.readouterr().err


def test_the_first_bad_row_counts_not_the_first_bad_column(csv):
    read, error = rows_and_error(csv("label,x,a\n1,1,1\n0,2,2\n1,1,a\n5,1,1\n0,b,1\n"))
    assert read == GOOD
    assert error.endswith("row 4: column 'a': 'a' is no whole number")


def test_all_bad_rows_are_counted_each_once(csv, capfd):
    text = "label,x,a\n1,1,1\n5,b,a\n0,2,2\n1,1\n1,b,a\n1,1,1,1\n2,1,1\n" + "1,2,3,4\n" * 20
    made = csv(text, on_error="skip")
    assert rows(made) == GOOD
    assert made.skipped.lines == 25
    told = capfd.readouterr().err
    for number in (3, 5, 6, 7, 8):
        assert f"row {number}:" in told


def test_a_file_without_a_column_is_named(csv, parquet, capfd):
    _, error = rows_and_error(csv("label,x\n1,1\n"))
    assert error.endswith("train.csv has no column 'a'")
    made = csv("label,x\n1,1\n", on_error="skip")
    assert (list(made), made.skipped.files) == ([], 1)
    with pytest.raises(DataError, match=r"train.parquet has no column 'a'; it has label, x"):
        iter(parquet({"label": [1], "x": [1.0]}))


def test_a_row_that_never_ends_is_an_error(csv):
    read, error = rows_and_error(csv("label,x,a\n1,1,1\n0,2,2\n" + "1" * (4 << 20)))
    assert read in (GOOD, [])
    assert error.endswith("train.csv: a row is longer than 1 MiB, or a quote is never closed")


def test_a_packed_csv_file_that_is_cut_short_is_an_error(csv, capfd):
    whole = gzip.compress(("label,x,a\n" + "".join(f"{n % 2},{n * n},{n}\n" for n in range(200_000))).encode())
    made = csv(whole[: len(whole) // 2], batch_size=1000, name="cut.csv.gz")
    read, error = rows_and_error(made)
    assert read[:2] == [(0.0, 0.0, 0), (1.0, 1.0, 1)]
    assert "cut.csv.gz is damaged or cut short" in error
    made = csv(whole[: len(whole) // 2], batch_size=1000, name="cut.csv.gz", on_error="skip")
    assert rows(made) == read
    assert made.skipped.files == 1


# --- Parquet ---


def test_row_groups_are_pieces(parquet, small_pieces):
    numbers = list(range(300))
    for thread_num in (1, 3):
        made = parquet(
            {"label": [n % 2 for n in numbers], "x": numbers, "a": numbers}, None or FEATURES, 50, thread_num
        )
        assert sorted(rows(made)) == sorted((n % 2, n, n) for n in numbers)
    assert len(made._plan) == 6


def test_a_parquet_file_without_rows_has_no_samples(parquet):
    nothing = pa.array([], pa.int64())
    assert list(parquet({"label": nothing, "x": nothing, "a": nothing})) == []


KINDS = {
    "whole numbers": ([1, 0], [2, None], [3, None]),
    "small ones": (pa.array([1, 0], pa.int8()), pa.array([2, None], pa.uint8()), pa.array([3, None], pa.int16())),
    "flags and floats": ([True, False], [2.0, None], pa.array([3, None], pa.uint64())),
    "decimals": ([1.0, 0.0], [Decimal("2.00"), None], [3, None]),
    "texts": (["1", "0"], ["2", ""], ["3", None]),
    "long texts": tuple(pa.array(values, pa.large_string()) for values in (["1", "0"], ["2", None], ["3", ""])),
    "dictionaries": tuple(pa.array(v).dictionary_encode() for v in (["1", "0"], [2.0, None], [3, None])),
}


@pytest.mark.parametrize("columns", KINDS.values(), ids=KINDS)
def test_columns_may_be_of_any_kind_that_holds_numbers(parquet, columns):
    made = parquet(dict(zip(("label", "x", "a"), columns, strict=True)))
    assert rows(made) == [(1.0, 2.0, 3), (0.0, 0.0, -1)]


def test_unsigned_ids_keep_their_bits(parquet):
    columns = {"label": [1, 0], "x": [1, 2], "a": pa.array([(1 << 64) - 1, 1 << 63], pa.uint64())}
    assert [row[2] for row in rows(parquet(columns))] == [-1, -(1 << 63)]


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_(pa.dictionary(pa.int8(), pa.string()))],
    ids=str,
)
def test_lists_are_many_values(parquet, kind):
    texts = pa.array([["p", "q"], None, [], ["q", None, ""]], pa.list_(pa.string())).cast(kind)
    ids = pa.array([[1, None, 2], [], None, [3]], pa.list_(pa.int64()))
    (batch,) = parquet({"x": [1, 2, 3, 4], "texts": texts, "ids": ids}, LISTS)
    values, offsets = batch.ids["texts"]
    assert offsets.tolist() == [0, 2, 2, 2]
    assert values[1] == values[2] != values[0]
    assert len(values) == 3
    assert [part.tolist() for part in batch.ids["ids"]] == [[1, 2, 3], [0, 2, 2, 2]]


def test_lists_of_one_length_are_lists(parquet):
    pairs = pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))
    (batch,) = parquet({"x": [1, 2], "texts": [["a"], []], "ids": pairs}, LISTS)
    assert [part.tolist() for part in batch.ids["ids"]] == [[1, 2, 3, 4], [0, 2]]


def test_a_bad_value_of_a_list_is_found_in_its_row(parquet, capfd):
    columns = {"x": [1, 2, 3], "texts": [[], [], []], "ids": [["1", "2", "3"], ["4", "b", "c"], ["5"]]}
    with pytest.raises(DataError, match=r"train.parquet, row 2: column 'ids': 'b' is no whole number"):
        list(parquet(columns, LISTS))
    made = parquet(columns, LISTS, on_error="skip")
    (batch,) = made
    assert [part.tolist() for part in batch.ids["ids"]] == [[1, 2, 3, 5], [0, 3]]
    assert made.skipped.lines == 1


def test_rows_have_their_numbers_in_the_file(parquet, small_pieces, monkeypatch):
    monkeypatch.setattr(columnar, "_ROWS", 7)
    columns = {"label": [0] * 99 + [3], "x": [0] * 100, "a": [0] * 100}
    for group in (100, 30):
        read, error = rows_and_error(parquet(columns, row_group_size=group))
        assert len(read) == 99
        assert error.endswith("train.parquet, row 100: column 'label': the label '3' is neither 0 nor 1")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"a": [[1], [2]]}, "column 'a' holds list<.*>, which cannot be ids"),
        ({"x": [[1], [2]]}, "column 'x' holds list<.*>, which cannot be numbers"),
        ({"x": pa.array([1, 2], pa.timestamp("s"))}, "column 'x' holds timestamp"),
    ],
)
def test_a_column_of_another_kind_is_named(parquet, capfd, columns, says):
    columns = {"label": [1, 0], "x": [1, 2], "a": [1, 2], **columns}
    with pytest.raises(DataError, match=f"train.parquet: {says}"):
        list(parquet(columns))
    made = parquet(columns, on_error="skip")
    assert (list(made), made.skipped.files) == ([], 1)


@pytest.mark.parametrize("kind", [pa.float64(), pa.list_(pa.int64())], ids=str)
def test_what_cannot_be_hashed_is_named(parquet, kind):
    column = pa.array([[1], [2]], kind) if pa.types.is_list(kind) else pa.array([1, 2], kind)
    with pytest.raises(DataError, match=r"column 'a' holds .*, which cannot be ids: make it text or whole numbers"):
        list(parquet({"x": [1, 2], "a": column}, Features([Dense("x"), Sparse("a")])))


@pytest.mark.parametrize("keep", [0, 3, 300])
def test_a_parquet_file_that_is_cut_short_is_named(tmp_path, write, dataset, keep):
    pa.parquet.write_table(pa.table({"label": [1] * 1000, "x": range(1000), "a": range(1000)}), tmp_path / "whole")
    path = write("cut", (tmp_path / "whole").read_bytes()[:keep])
    with pytest.raises(DataError, match="cut is no Parquet file"):
        iter(dataset([path], format=Parquet(FEATURES)))


def test_a_parquet_file_that_is_damaged_is_named(tmp_path, write, dataset, capfd):
    pa.parquet.write_table(pa.table({"label": [1] * 1000, "x": range(1000), "a": range(1000)}), tmp_path / "whole")
    whole = bytearray((tmp_path / "whole").read_bytes())
    whole[4:3000] = bytes(2996)
    path = write("damaged", bytes(whole))
    with pytest.raises(DataError, match="damaged is damaged or cut short"):
        list(dataset([path], format=Parquet(FEATURES)))
    made = dataset([path], format=Parquet(FEATURES), on_error="skip")
    assert (list(made), made.skipped.files) == ([], 1)
