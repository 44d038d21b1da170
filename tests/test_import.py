"""``import gradwire`` loads numpy and the native core only, and stays quick."""

import subprocess
import sys

HEAVY = ("torch", "flwr", "matplotlib", "scipy", "sklearn", "rich", "safetensors", "PIL")


def test_import_is_light():
    code = f"import gradwire, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "[]"


def test_command_line_help_is_light():
    code = (
        "import sys, gradwire.cli\n"
        "try: gradwire.cli.main(['encode', '--help'])\n"
        f"except SystemExit: print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.strip().endswith("[]")
