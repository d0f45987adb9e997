"""Programs that turn lines into samples, to be used as a ``pipe_command``. They are flota's own."""

from flota.data.generator import DataGenerator, MultiSlotDataGenerator, MultiSlotStringDataGenerator

__all__ = ["DataGenerator", "MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]
