"""Prices of tokens by patterns of model names."""

import math

import pytest
import yaml

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Usage
from ragsweep.parts.prices import Prices
from ragsweep.sweep.composing.compose import config_folder

TABLE = Prices("2025-08-15", "USD", "made up", {"m*": [1_000_000, 2_000_000]})  # 1 a token read, 2 a token written


def test_pattern_with_the_most_letters_decides() -> None:
    table = Prices("2025-08-15", "USD", "", {"*": [9, 9], "gpt-4o*": [2.5, 10], "gpt-4o-mini*": [0.15, 0.6]})
    assert table.of("gpt-4o-mini-2024-07-18") == (0.15, 0.6)
    assert table.of("GPT-4o-2024-08-06") == (2.5, 10)
    assert table.of("llama") == (9, 9)
    assert table.money("gpt-4o", Usage(1, 1_000_000, 500_000)) == 7.5


@pytest.mark.parametrize("patterns", [["gpt-4o*", "gpt-4o"], ["gpt-4o", "gpt-4o*"], ["*gpt-4o*", "gpt-4o"]])
def test_the_whole_name_of_a_model_decides_over_a_pattern_with_the_same_letters(patterns: list[str]) -> None:
    table = Prices("2025-08-15", "USD", "", {one: [1, 2] if "*" in one else [3, 4] for one in patterns})
    assert (table.of("gpt-4o"), table.of("gpt-4o-2024-08-06")) == ((3, 4), (1, 2))


@pytest.mark.parametrize(
    ("model", "price"),
    [
        *(("gpt-5-2025-08-07", (1.25, 10.0)), ("gpt-5-chat-latest", (1.25, 10.0)), ("gpt-5.2", None)),
        *(("o3-2025-04-16", (2.0, 8.0)), ("o3-mini-2025-01-31", (1.1, 4.4)), ("o3-pro", None)),
        *(("gpt-4o-2024-11-20", (2.5, 10.0)), ("gpt-4o-2024-05-13", (5.0, 15.0))),
    ],
)
def test_a_price_of_the_shipped_table_is_not_that_of_another_model(
    model: str, price: tuple[float, float] | None
) -> None:
    table = yaml.safe_load((config_folder() / "prices" / "default.yaml").read_text("utf-8"))
    del table["_target_"]
    assert Prices(**table).of(model) == price


def test_model_without_a_price_costs_what_nobody_knows_and_no_call_costs_nothing() -> None:
    assert math.isnan(TABLE.money("llama", Usage(1, 5, 5)))
    assert TABLE.money("llama", Usage()) == 0
    assert TABLE.money("", Usage(0, 5, 5)) == 0  # of a model on this machine
    assert TABLE.money("llama", Usage(1, 1, 1), "other", "m") == 3  # of the first model with a price


def test_a_call_without_token_counts_has_no_known_price_unless_all_its_tokens_are_free() -> None:
    assert math.isnan(TABLE.money("m", Usage(1, 0, 0)))
    assert Prices("2025-08-15", "USD", "", {"m": [0, 0]}).money("m", Usage(1, 0, 0)) == 0


@pytest.mark.parametrize(
    ("date", "models", "message"),
    [
        ("yesterday", {}, 'prices.date must be a date such as "2025-08-15", got'),
        (
            "2025-08-15",
            {"m": [1]},
            r"models\.m: must be \[input price, output price\] per million tokens, .*, got \[1\]",
        ),
        ("2025-08-15", {"m": [1, -1]}, r"got \[1, -1\]"),
        ("2025-08-15", {"m": [1, float("nan")]}, r"got \[1, nan\]"),
        ("2025-08-15", {"m": "cheap"}, "got 'cheap'"),
    ],
)
def test_table_that_is_none_is_refused(date: str, models: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Prices(date, "USD", "", models).check()
