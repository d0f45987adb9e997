"""What scripts import, and what they are told when it is not there."""

import subprocess
import sys

import pytest

import flota.paddle as paddle
from flota.paddle.modules import MODULES, home_of


def run(*code):
    command = [sys.executable, "-c", "\n".join(["from flota.paddle.modules import install", "install()", *code])]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_every_name_of_the_table_can_be_imported():
    done = run("import importlib", *(f"importlib.import_module({name!r})" for name in MODULES))
    assert done.returncode == 0, done.stderr


def test_an_imported_module_is_the_package_s_own():
    done = run(
        "import paddle, paddle.static as static, flota.paddle.static",
        "from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet",
        "assert static is flota.paddle.static and paddle.static is static, static",
        "assert fleet.is_worker is flota.is_worker",
    )
    assert done.returncode == 0, done.stderr


def test_another_paddle_does_not_get_in_the_way(tmp_path):
    (tmp_path / "paddle.py").write_text("raise SystemExit('the wrong one')")
    script = tmp_path / "train.py"
    script.write_text("import paddle\nprint(paddle.concat.__name__)")
    done = subprocess.run(
        [sys.executable, "-m", "flota.paddle", str(script)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "concat", done.stderr


def test_what_is_not_there_is_named_with_what_is_near():
    done = run("import paddle.statics")
    assert "flota's paddle has no paddle.statics: did you mean paddle.static?" in done.stderr
    with pytest.raises(AttributeError, match=r"has no 'concatt': did you mean paddle.concat\?"):
        _ = paddle.concatt
    with pytest.raises(
        AttributeError, match=r"has no 'init_workers': did you mean paddle.distributed.fleet.init_worker\?"
    ):
        _ = paddle.distributed.fleet.init_workers


def test_a_data_generator_does_not_pay_for_torch():
    done = run(
        "import sys, paddle.distributed.fleet as fleet",
        "fleet.MultiSlotDataGenerator",
        "assert 'torch' not in sys.modules",
    )
    assert done.returncode == 0, done.stderr


def test_homes_are_modules_of_the_package():
    assert home_of("paddle") == "flota.paddle"
    assert home_of("paddle.static.nn") == "flota.paddle.static.nn"
