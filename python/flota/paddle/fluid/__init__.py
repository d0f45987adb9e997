"""``paddle.fluid``: 1.x."""

from flota.paddle.base import NAMES
from flota.paddle.first_mode import begin_static
from flota.paddle.names import public

begin_static()  # 1.x has nothing else

__getattr__, __dir__ = public("flota.paddle.fluid", "paddle.fluid", NAMES)
