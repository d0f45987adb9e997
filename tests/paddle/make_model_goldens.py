"""Writes golden/models.json: what training each model gives with the reference. Runs where the reference is installed:

GLOG_minloglevel=3 python tests/paddle/make_model_goldens.py [model …]
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "models.json"

# The last release in which it is public has no wheel any more; 2.6.2 still has it, elsewhere.
PATCH = "import paddle, paddle.base.reader as r; paddle.io.DataLoader.from_generator = r.DataLoader.from_generator"


def main():
    known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    names = sys.argv[1:] or [path.parent.name for path in sorted(HERE.glob("models/*/data.py"))]
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        shutil.copytree(HERE / "models", models)
        train = models / "tools" / "train_all.py"
        record = Path(folder) / "record.json"
        code = f"{PATCH}; import runpy, sys; sys.argv = sys.argv[1:]; sys.path.insert(0, {str(train.parent)!r})"
        command = [sys.executable, "-c", f"{code}; runpy.run_path({str(train)!r}, run_name='__main__')"]
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # of pipe commands
        subprocess.run([*command, train, record, *names], check=True, cwd=folder, env={**os.environ, "PATH": path})
        made = json.loads(record.read_text())
    failed = [name for name, found in made.items() if "failed" in found]
    known.update({name: found for name, found in made.items() if name not in failed})
    GOLDEN.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
