"""``flota checkpoint diff``: what is different between two checkpoints."""

import json

import numpy as np
import pytest
from small import command, dense_spec, page_of, save, spec_of

from flota import rules
from flota.checkpoint.commands.compare import apart
from flota.checkpoint.writer import CheckpointWriter
from flota.pages import RowPage, ShardPage


def diff(one, other, capsys, *options):
    status = command("diff", one, other, "--json", *options)
    return status, json.loads(capsys.readouterr().out)


def test_equal_ones_are_equal_however_their_rows_lie(tmp_path, capsys):
    pages = [page_of(range(40)), page_of(range(40, 60))]
    backwards = [RowPage(**{name: column[::-1] for name, column in vars(page).items()}) for page in pages[::-1]]
    for name, parts, file_bytes in (("a", pages, 1 << 20), ("b", backwards, 200)):
        with CheckpointWriter(tmp_path / name, file_bytes=file_bytes) as writer:
            writer.add_rows(spec_of("users"), [ShardPage((0, 1023), part) for part in parts])
            writer.publish()
    status, found = diff(tmp_path / "a", tmp_path / "b", capsys)
    assert (status, found["equal"]) == (0, True)
    assert command("diff", tmp_path / "a", tmp_path / "b") == 0
    assert capsys.readouterr().out.endswith("\nequal\n")


def test_rows_that_are_new_gone_and_changed_are_counted(tmp_path, capsys):
    for name, keys, weights in (("a", [1, 2, 3, 4], [1, 1, 1, 1]), ("b", [2, 3, 4, 5], [1, 1.5, 1.25, 1])):
        page = page_of(keys, dim=1)
        page.weights[:, 0] = weights
        with CheckpointWriter(tmp_path / name, step=7) as writer:
            writer.add_rows(spec_of("users", dim=1), [ShardPage((0, 1023), page)])
            writer.publish()
    status, found = diff(tmp_path / "a", tmp_path / "b", capsys)
    assert status == 1
    users = found["tables"]["users"]
    assert users["rows"] == {"only_a": 1, "only_b": 1, "changed": 2, "same": 1}
    assert users["difference"]["weights"] == {"max": 0.5, "mean": 0.25}
    assert users["difference"]["sum"] == {"max": 0.0, "mean": 0.0}
    assert users["most"] == [{"key": 3, "max": 0.5}, {"key": 4, "max": 0.25}]
    _, found = diff(tmp_path / "a", tmp_path / "b", capsys, "--tolerance", 0.3)
    assert found["tables"]["users"]["rows"]["changed"] == 1
    assert command("diff", tmp_path / "a", tmp_path / "b") == 1
    said = capsys.readouterr().out
    assert "rows: 1 only in A, 1 only in B, 2 changed, 1 equal" in said
    assert "furthest apart: 3 (0.5), 4 (0.25)" in said


def test_tables_settings_and_counters_that_differ_are_named(tmp_path, capsys):
    save(tmp_path / "a", tables=("users", "items"), step=5)
    with CheckpointWriter(tmp_path / "b", step=6) as writer:
        writer.add_rows(spec_of("users", rule=rules.Adagrad(lr=0.2)), [ShardPage((0, 1023), page_of(range(5)))])
        writer.add_rows(spec_of("shops"), [])
        writer.add_parameter(dense_spec(), np.ones((2, 3), np.float32), {}, updates=9, last_seen=9)
        writer.publish()
    status, found = diff(tmp_path / "a", tmp_path / "b", capsys)
    assert status == 1
    assert found["settings"] == {"step": [5, 6]}
    assert (found["only_a"], found["only_b"]) == (["items"], ["shops"])
    assert found["tables"]["users"]["settings"] == {"rule.lr": [0.1, 0.2]}
    assert found["tables"]["dense/deep.weight"]["counters"] == 1
    assert found["tables"]["dense/deep.weight"]["rows"]["changed"] == 0
    command("diff", tmp_path / "a", tmp_path / "b")
    said = capsys.readouterr().out
    for line in (
        "step: 5 in A, 6 in B",
        "table items: only in A",
        "table shops: only in B",
        "rule.lr: 0.1 in A, 0.2 in B",
    ):
        assert line in said


def test_rows_of_another_width_or_rule_are_not_compared(tmp_path, capsys):
    for name, dim, rule, slots in (("a", 2, rules.SGD(), 0), ("b", 3, rules.Adagrad(), 1)):
        with CheckpointWriter(tmp_path / name) as writer:
            page = page_of(range(4), dim=dim, slots=slots)
            writer.add_rows(spec_of("users", dim, rule), [ShardPage((0, 1023), page)])
            writer.publish()
    status, found = diff(tmp_path / "a", tmp_path / "b", capsys)
    assert status == 1
    assert found["tables"]["users"]["settings"]["dim"] == [2, 3]
    assert found["tables"]["users"]["settings"]["rule.kind"] == ["SGD", "Adagrad"]
    assert found["tables"]["users"]["difference"] == {}


def test_nan_equals_nan_and_nothing_else():
    nan, inf = np.nan, np.inf
    one = np.array([nan, nan, 1, inf, inf, 2], np.float32)
    other = np.array([nan, 1, nan, inf, -inf, 5], np.float32)
    assert apart(one, other).tolist() == [0, inf, inf, 0, inf, 3]
    large = np.array([1 << 40, (1 << 40) + 1])
    assert apart(large, large[::-1]).tolist() == [1, 1]
    assert apart(np.array([True, False]), np.array([True, True])).tolist() == [0, 1]


def test_what_makes_no_sense_is_refused(tmp_path, capsys):
    save(tmp_path / "a")
    with pytest.raises(SystemExit):
        command("diff", tmp_path / "a", tmp_path / "a", "--tolerance", "-1")
    assert "--tolerance must be 0 or more" in capsys.readouterr().err
