"""Gradient clipping."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

from flota.errors import InvalidArgument


class ClipGradBase(ABC):
    """What all share. Use one of the subclasses."""

    @abstractmethod
    def clip(self, gradients: Sequence[torch.Tensor]) -> None:
        """Clips them in place. A table's is that of the rows that were looked up, each once."""


class ClipGradByValue(ClipGradBase):
    """Each number between ``min`` (without it: ``-max``) and ``max``."""

    def __init__(self, max: float, min: float | None = None) -> None:
        if min is None and not max > 0:
            raise InvalidArgument(f"ClipGradByValue: without min, max is above 0, not {max}")
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def clip(self, gradients: Sequence[torch.Tensor]) -> None:
        for gradient in gradients:
            gradient.clamp_(self.min, self.max)

    def __str__(self) -> str:
        return f"ClipGradByValue(min={self.min:g}, max={self.max:g})"


class ClipGradByNorm(ClipGradBase):
    """Each gradient no longer than ``clip_norm``."""

    def __init__(self, clip_norm: float) -> None:
        self.clip_norm = _positive(clip_norm)

    def clip(self, gradients: Sequence[torch.Tensor]) -> None:
        for gradient in gradients:
            gradient.mul_(self.clip_norm / gradient.norm().clamp_(min=self.clip_norm))

    def __str__(self) -> str:
        return f"ClipGradByNorm({self.clip_norm:g})"


class ClipGradByGlobalNorm(ClipGradBase):
    """All gradients together no longer than ``clip_norm``. ``auto_skip_clip``: where they are not, they are not touched
    at all; it costs a wait for the device."""

    def __init__(self, clip_norm: float, group_name: str = "default_group", auto_skip_clip: bool = False) -> None:
        self.clip_norm = _positive(clip_norm)
        if group_name != "default_group":
            raise InvalidArgument(f"an optimizer's gradients are one group: there is no group {group_name!r}")
        self.auto_skip_clip = auto_skip_clip

    def clip(self, gradients: Sequence[torch.Tensor]) -> None:
        if not gradients:
            return
        home = gradients[0].device
        norm = torch.stack([gradient.norm().float().to(home) for gradient in gradients]).norm()
        if self.auto_skip_clip and float(norm) <= self.clip_norm:
            return
        scale = self.clip_norm / norm.clamp(min=self.clip_norm)
        for gradient in gradients:
            gradient.mul_(scale.to(gradient.device))

    def __str__(self) -> str:
        return f"ClipGradByGlobalNorm({self.clip_norm:g})"


def _positive(norm: float) -> float:
    if not norm > 0:
        raise InvalidArgument(f"a gradient's norm is clipped to a number above 0, not {norm}")
    return float(norm)


# --- 1.x ---

_of_programs: WeakKeyDictionary[Any, ClipGradBase] = WeakKeyDictionary()


def set_gradient_clip(clip: ClipGradBase, param_list: Any = None, program: Any = None) -> None:
    """1.x's optimizers that have no ``grad_clip`` of their own clip by this one for a loss of this program, the default
    one unless given: all parameters, those that are made later too."""
    from flota.paddle.graph.program import Program, default_main_program

    if not isinstance(clip, ClipGradBase):
        raise InvalidArgument(f"set_gradient_clip takes one of fluid.clip.GradientClipBy…, not {clip!r}")
    if param_list is not None:
        raise InvalidArgument(
            "set_gradient_clip clips all parameters: leave param_list out, and give others ParamAttr(need_clip=False)"
        )
    if program is not None and not isinstance(program, Program):
        raise InvalidArgument(f"set_gradient_clip: program is a Program, not {program!r}")
    _of_programs[default_main_program() if program is None else program] = clip


def clip_of(program: Any) -> ClipGradBase | None:
    """What ``set_gradient_clip`` was told for this program."""
    return _of_programs.get(program)


# 1.x's names.
GradientClipByValue = ClipGradByValue
GradientClipByNorm = ClipGradByNorm
GradientClipByGlobalNorm = ClipGradByGlobalNorm
