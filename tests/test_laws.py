"""Every law on every example, and that no codec lacks its examples, golden vectors, wire-format row and page."""

from pathlib import Path

import pytest

import gradwire
from examples import EXAMPLES
from laws import LAWS

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("spec", EXAMPLES)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law, spec):
    law(gradwire.from_spec(spec))


@pytest.mark.parametrize("name", gradwire.CODECS)
def test_codec_is_whole(name):
    codec = gradwire.CODECS[name]
    assert any(gradwire.from_spec(s).name == name for s in EXAMPLES), f"add rows for {name} to tests/examples.py"
    assert (ROOT / f"tests/golden/{name}.json").is_file(), f"run: gradwire vectors add {name}"
    row = f"| {codec.code} | {codec.__name__} |"
    assert row in (ROOT / "docs/wire-format.md").read_text(), f"add {row} to docs/wire-format.md, section 6"
    assert (ROOT / f"docs/codecs/{name}.md").is_file(), f"write docs/codecs/{name}.md"
    doc = codec.__doc__ or ""
    for part in ("Definition:", "Guarantee:", "Example:", "Source:"):
        assert part in doc, f"the docstring of {codec.__name__} lacks {part}"


def test_codes_are_distinct():
    assert len(gradwire.codecs.BY_CODE) == len(gradwire.CODECS)


@pytest.mark.parametrize("spec", EXAMPLES)
def test_text_form_gives_the_codec_back(spec):
    codec = gradwire.from_spec(spec)
    assert gradwire.from_spec(str(codec)) == codec
