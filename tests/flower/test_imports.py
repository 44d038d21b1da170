"""What importing costs: gradwire knows nothing of Flower, and gradwire.flower nothing of PyTorch."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("flwr")


def loaded(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return {name for name in out.stdout.split() if not name.startswith("_")}


def test_gradwire_does_not_import_flower():
    assert not {"flwr", "ray", "gradwire.flower"} & loaded("import gradwire")


def test_gradwire_flower_does_not_import_torch():
    modules = loaded("import gradwire.flower")
    assert "flwr" in modules
    assert not {"torch", "gradwire.torch", "ray", "matplotlib"} & modules


def test_the_options_of_the_comparison_import_neither():
    statement = "import argparse; from gradwire.experiments import federated as f"
    modules = loaded(f"{statement}; f.add_arguments(argparse.ArgumentParser())")
    assert not {"torch", "flwr", "matplotlib"} & modules


def test_without_flower_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['flwr'] = None\n"
        "from gradwire.errors import MissingError\n"
        "try: import gradwire.flower\n"
        "except MissingError as e: print(e)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'gradwire[flower]'" in out.stdout
