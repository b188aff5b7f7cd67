"""A secret is masked where it is written, and refused where other programs would write it."""

from __future__ import annotations

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.secrets import MASK, mask, refuse_secrets


def test_values_of_secret_names_are_masked_at_any_depth() -> None:
    tree = {"llm": {"api_key": "sk-1", "items": [{"password": "p"}], "model": "m"}, "token": None, "secret": ""}
    masked = {"llm": {"api_key": MASK, "items": [{"password": MASK}], "model": "m"}, "token": None, "secret": ""}
    assert mask(tree) == masked
    similar = dict.fromkeys(["monkey", "tokens", "top_k", "keyword", "secretary"], "value")
    assert mask(similar) == similar


@pytest.mark.parametrize("line", ["llm.api_key=sk-1", "+judge.token=x", "password=x"])
def test_secret_on_the_command_line_is_refused_without_repeating_it(line: str) -> None:
    with pytest.raises(ConfigError, match="into the environment") as fault:
        refuse_secrets([line])
    assert "sk-1" not in str(fault.value)
    refuse_secrets(["llm.api_key=${oc.env:OPENAI_API_KEY}", "llm.api_key=null", "top_k=3"])
