"""Build the wheel, install it alone into an empty environment, and use it in an empty folder.

``make test-wheel`` runs it. Whatever a user of the installed package would miss ends it with the
command that failed: a file that is not in the wheel, a dependency that is not declared.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
ESTIMATOR = """
import numpy as np
from firthshot import FirthClassifier, load_bank
bank = load_bank("clinc150-minilm")
rows = np.concatenate([rows[:4] for rows in bank.class_rows("novel")[:5]])
model = FirthClassifier().fit(bank.features[rows], bank.labels[rows])
print(f"{model.score(bank.features[rows], bank.labels[rows]):.2f} of the training rows")
"""


def run(*command, where):
    """Run a command without a way back to the repository; end with its output where it fails."""
    left_out = {"PYTHONPATH", "FIRTHSHOT_BANKS", "VIRTUAL_ENV"}
    world = {name: value for name, value in os.environ.items() if name not in left_out}
    world |= {"FIRTHSHOT_CACHE": str(where / "cache"), "NUMBA_CACHE_DIR": str(where / "kernels")}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=where, env=world, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout


def install(folder):
    """Build and install the wheel; return the folder of its commands."""
    venv.create(folder / "venv", with_pip=True)
    commands = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    pip = [commands / "python", "-m", "pip", "--quiet"]
    run(*pip, "wheel", "--no-deps", "--wheel-dir", folder / "dist", ROOT, where=folder)
    (wheel,) = (folder / "dist").glob("firthshot-*.whl")
    run(*pip, "install", wheel, where=folder)
    return commands


def check(folder):
    """Use the installed package as the first page of the README does, in small."""
    commands = install(folder)
    empty = folder / "empty"
    empty.mkdir()
    place = run(
        commands / "python", "-c", "import firthshot; print(firthshot.__file__)", where=empty
    )
    if not Path(place.strip()).is_relative_to(folder):
        sys.exit(f"firthshot was imported from {place.strip()}, not from the wheel.")
    small = ["--trials", "20", "--set", "ways=[5]", "--set", "shots=[1]"]
    run(commands / "firthshot", "run", "quickstart", *small, "--out", "quick", where=empty)
    page = empty / "quick" / "report.html"
    if not page.is_file() or "</html>" not in page.read_text("utf-8"):
        sys.exit(f"{page} is not a report.")
    print("The command of the wheel wrote its report.")
    print(run(commands / "python", "-c", ESTIMATOR, where=empty).strip())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        check(Path(temporary))
