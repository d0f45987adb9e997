"""Lines `click,buy,slot:id slot:id …`, as one line of numbers for each sample."""

import paddle.distributed.fleet as dg

SLOTS = ["slot_0", "slot_1", "slot_2"]


class ESMMReader(dg.MultiSlotDataGenerator):
    def line_process(self, line):
        ctr, cvr, features = line.strip().split(",")
        ids = {name: [] for name in SLOTS}
        for each in features.split():
            slot, feature = each.split(":")
            ids["slot_" + slot].append(int(feature))
        for name in SLOTS:
            if not ids[name]:
                ids[name].append(0)  # the padding
        return ids, int(ctr), int(cvr)

    def generate_sample(self, line):
        def reader():
            ids, ctr, cvr = self.line_process(line)
            sample = [(name, ids[name]) for name in SLOTS]
            yield sample + [("ctr", [ctr]), ("cvr", [cvr])]

        return reader


if __name__ == "__main__":
    ESMMReader().run_from_stdin()
