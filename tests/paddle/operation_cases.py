"""Operations, and what they are tried on: for the reference, which gives the golden values, and for flota, which must
give the same. Neither is imported here.

A side of ``ROWS`` is the batch's: in a program it is -1. Where the reference does not do what its documents say, a
comment beside the case says so, and the case follows the documents.
"""

from __future__ import annotations

import layer_cases
import loss_cases
import tensor_cases

CASES = [*tensor_cases.CASES, *layer_cases.CASES, *loss_cases.CASES]
