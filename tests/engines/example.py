"""The example that the tests of engines train, and what it prints. (Not in conftest.py: each folder of tests has a
module of that name.)"""

import re
import ssl
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "wide_and_deep.py"
# Small, and long enough to be cut in its middle. With --mode=sync, WORKERS workers train what one process does.
WORKERS = 3
SETTINGS = ["--rows=60000"]
OF_EACH_WORKER = [*SETTINGS, "--batch_size=64"]
OF_ONE_PROCESS = [*SETTINGS, f"--batch_size={WORKERS * 64}"]


def example_auc(output: str) -> float:
    """What worker 0 of the example printed at its end."""
    found = re.search(r"test AUC (0\.\d{4})$", output, re.MULTILINE)
    assert found, output
    return float(found[1])


def names_of_server(host, server):
    """The hosts that the certificate of this endpoint's server names, seen from a host."""
    words = ["-c", "import ssl, sys; print(ssl.get_server_certificate((sys.argv[1], int(sys.argv[2])), timeout=20))"]
    text = host.run([sys.executable, *words, *server.split(":")])
    file = host.folder / "certificate.pem"
    file.write_text(text)
    return [name for _, name in ssl._ssl._test_decode_cert(str(file))["subjectAltName"]]
