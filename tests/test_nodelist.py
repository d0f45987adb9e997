"""Slurm's lists of nodes and of tasks, as scontrol would write them out."""

import pytest

from flota.errors import InvalidArgument
from flota.roles.nodelist import expand_counts, expand_nodes


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("h1", ["h1"]),
        ("h[1-3]", ["h1", "h2", "h3"]),
        ("h[1-3,7],gpu01", ["h1", "h2", "h3", "h7", "gpu01"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[008,9-11]", ["n008", "n9", "n10", "n11"]),
        ("n[099-101]", ["n099", "n100", "n101"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("n[1-2]-ib,login", ["n1-ib", "n2-ib", "login"]),
        ("a.cluster.local,b[3]", ["a.cluster.local", "b3"]),
        ("h[3,1-2]", ["h3", "h1", "h2"]),
    ],
)
def test_a_list_of_nodes_in_full(text, nodes):
    assert expand_nodes("LIST", text) == nodes


@pytest.mark.parametrize(
    "text",
    ["", ",", "h1,", "h[", "h]", "h[1-3", "h[1-3]]", "h[[1]]", "h[]", "h[3-1]", "h[1-]", "h[a-b]", "h[1-999999999]",
     "h[1-60000]x[1-60000]", "h[1,,2]", "h[-1]"],
)  # fmt: skip
def test_what_is_no_list_of_nodes_is_refused(text):
    with pytest.raises(InvalidArgument, match="LIST="):
        expand_nodes("LIST", text)


def test_tasks_of_each_node():
    assert expand_counts("TASKS", "2(x3),1") == [2, 2, 2, 1]
    assert expand_counts("TASKS", "4") == [4]
    for text in ("", "2(x)", "2(x0)", "two", "1,,2", "1(x99999999)"):
        with pytest.raises(InvalidArgument, match="TASKS="):
            expand_counts("TASKS", text)
