import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from click_data import read  # noqa: E402

import paddle.distributed.fleet as fleet  # noqa: E402


class Reader(fleet.MultiSlotDataGenerator):
    def generate_sample(self, line):
        def wd_reader():
            label, counts, ids = read(line)
            output = [("dense_input", counts)]
            for i, each in enumerate(ids):
                output.append(("C%d" % i, [each] if i else [each, (each * 7) % 100 + 1]))
            output.append(("label", [label]))
            yield output

        return wd_reader


if __name__ == "__main__":
    Reader().run_from_stdin()
