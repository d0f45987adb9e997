"""Optimizers: which server rule a torch optimizer becomes, and those that torch has not."""

from flota.optim.eager import leave_out_the_compiler
from flota.optim.ftrl import Ftrl
from flota.optim.mapping import counts_steps, has_rule, rule_of

__all__ = ["Ftrl", "counts_steps", "has_rule", "rule_of"]

leave_out_the_compiler()
