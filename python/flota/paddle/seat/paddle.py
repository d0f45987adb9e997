"""What ``import paddle`` finds in processes that a script under flota.paddle starts: pipe commands, loaders."""

from importlib import import_module

from flota.paddle.modules import install

install()
import_module("paddle")  # takes this module's place
