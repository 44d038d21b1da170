"""The frameworks' examples as real processes, and the pages that show them."""

import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gradwire.errors import ParameterError
from launched import Launched

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "examples" / "torch"
PAGES = {"torch.md": "train.py", "lightning.md": "lightning_train.py", "accelerate.md": "accelerate_train.py"}
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the loopback interface has another name")


def needs(module):
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"needs {module}")


@needs("lightning")
def test_lightning_resumes_with_the_bits_of_an_unbroken_run(tmp_path):
    with Launched(tmp_path) as launched:
        launched.run(sys.executable, HERE / "lightning_resumes.py", tmp_path)
        assert launched.wait(120) == [0], launched.all_output()
        check(launched.output())
        assert "steps after another fit 80\n" in launched.output()


@needs("lightning")
def test_the_lightning_callback_does_nothing_on_one_device_and_refuses_other_strategies():
    from gradwire.torch.lightning import Compress

    callback, model = Compress(), torch.nn.Linear(2, 2)
    callback.on_fit_start(SimpleNamespace(strategy=SimpleNamespace(model=model), world_size=1), model)
    assert callback.hook is None
    assert callback.state_dict() == {}
    with pytest.raises(ParameterError, match="SimpleNamespace"):
        callback.on_fit_start(SimpleNamespace(strategy=SimpleNamespace(model=model), world_size=2), model)


@needs("accelerate")
def test_accelerate_resumes_with_the_bits_of_an_unbroken_run(tmp_path):
    with Launched(tmp_path) as launched:
        launched.ranks(2, HERE / "accelerate_resumes.py", tmp_path)
        assert launched.wait(120) == [0, 0], launched.all_output()
        check(launched.output())


def check(output):
    assert "steps 64 32 32\n" in output, output
    assert float(re.search(r"ratio ([\d.]+)", output)[1]) > 15
    assert "parts ['rank0', 'rank1']" in output
    assert "same True" in output
    assert "same as half way False" in output


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_is_that_of_the_example(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    lines = {line.strip() for line in (EXAMPLES / PAGES[page]).read_text().splitlines()}
    assert blocks
    shown = [line.strip() for line in blocks[0].splitlines() if line.strip()]
    assert [line for line in shown if line not in lines] == [], f"not in examples/torch/{PAGES[page]}"
