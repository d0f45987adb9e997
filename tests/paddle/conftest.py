"""What tests of the Paddle front end share."""

from collections.abc import Iterator

import pytest

import flota.paddle as paddle


@pytest.fixture(autouse=True)
def dynamic() -> Iterator[None]:
    """Operations compute at once, unless a test says otherwise, for itself."""
    paddle.disable_static()
    yield
    paddle.disable_static()


@pytest.fixture
def program() -> "Iterator[paddle.static.Program]":
    """Static mode, with a program, names and a scope of the test's own."""
    static = paddle.static
    paddle.enable_static()
    made = static.Program()
    guard = static.program_guard(made, static.Program())
    with paddle.utils.unique_name.guard(), static.scope_guard(static.Scope()), guard:
        yield made
    paddle.disable_static()
