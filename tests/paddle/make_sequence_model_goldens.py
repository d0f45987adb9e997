"""Writes golden/sequence_models.json: what training each model of sequences gives with the reference. Runs where the
reference is installed:

GLOG_minloglevel=3 python tests/paddle/make_sequence_model_goldens.py
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
MODELS = HERE / "models"
GOLDEN = HERE / "golden" / "sequence_models.json"
NAMES = ("din", "esmm", "gru4rec", "mmoe", "two_tower")


def main():
    reference = [sys.executable, str(MODELS / "reference.py")]
    sys.path.insert(0, str(MODELS))
    import synthetic

    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.json"
        subprocess.run([*reference, str(MODELS / "steps.py"), record, *NAMES], check=True, cwd=folder)
        made = json.loads(record.read_text())
        synthetic.write("word2vec", folder, lines=16)
        script = [str(MODELS / "word2vec" / "train.py"), "--data_dir", folder]
        printed = subprocess.run([*reference, *script], check=True, cwd=folder, capture_output=True, text=True).stdout
    for found in made.values():
        del found["program"]
        # A copy of all the others' numbers in one piece, which the reference keeps for the GPU.
        found["parameters"].pop("gru_0.w_0", None)
        found["last"].pop("gru_0.w_0", None)
    made["word2vec"] = [float(cost) for cost in re.findall(r"avg_cost: (\S+)", printed)]
    GOLDEN.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
