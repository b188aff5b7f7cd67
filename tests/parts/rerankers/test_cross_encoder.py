"""The cross-encoder, on a tiny model made for the test."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError
from ragsweep.parts.rerankers import CrossEncoder
from ragsweep.testing.rerankers import PAIRS, RerankerContract
from support.models import WORDS


def reranker(folder: Path, **parameters: object) -> CrossEncoder:
    return CrossEncoder(str(folder), **{"device": "cpu", "dtype": "float32", **parameters})


class TestCrossEncoder(RerankerContract):
    dtype = "float32"

    @pytest.fixture(autouse=True)
    def _model(self, tiny_classifier: Path) -> None:
        part = reranker(tiny_classifier, batch_size=3, dtype=self.dtype)
        self.part = lambda: part


class TestCrossEncoderInHalfPrecision(TestCrossEncoder):
    dtype, tolerance = "bfloat16", 0.05


def logits(folder: Path, pairs: list[tuple[str, str]], length: int) -> np.ndarray:
    """Compute the logits of the classifier, with nothing but transformers."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        read = [tokenizer([q], [t], truncation=True, max_length=length, return_tensors="pt") for q, t in pairs]
        return np.array([float(model(**one).logits[0, 0]) for one in read])


def test_score_is_the_classifiers_logit(tiny_classifier: Path) -> None:
    scores = reranker(tiny_classifier).score(PAIRS)
    np.testing.assert_allclose(scores, logits(tiny_classifier, list(PAIRS), 48), atol=1e-4)
    assert np.ptp(scores) > 0.1


def test_max_length_cuts_the_pair(tiny_classifier: Path) -> None:
    pairs = [("who sat", "cat mat stars moons the the cat " * 4)]
    short = reranker(tiny_classifier, max_length=12).score(pairs)
    np.testing.assert_allclose(short, logits(tiny_classifier, pairs, 12), atol=1e-4)
    assert abs(short - reranker(tiny_classifier).score(pairs)) > 1e-3


@given(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=20).map(" ".join), max_size=12))
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_passages_that_read_the_same_have_one_score_in_any_batch(tiny_classifier: Path, others: list[str]) -> None:
    pair, more = ("who sat on the mat", "the cat sat on the mat and many words"), [("stars", text) for text in others]
    part = reranker(tiny_classifier)
    assert len({float(score) for score in (part.score([pair])[0], part.score([*more, pair])[-1])}) == 1


def test_embedding_model_is_refused_before_a_random_head_is_put_on_it(tiny_embedder: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"architecture is BertModel; use a cross-encoder .* reranker=late_interaction"
    ):
        reranker(tiny_embedder).check()


def test_model_with_several_outputs_is_refused(tiny_classifier: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny_classifier, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "id2label": {"0": "no", "1": "yes"}}))
    with pytest.raises(ConfigError, match="returns 2 scores per pair"):
        reranker(copy).check()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dtype": "float23"}, r'reranker\.dtype is .float23.; did you mean "float32"'),
        ({"batch_size": 0}, r"reranker\.batch_size must be .*, got 0"),
        ({"max_length": 49}, r"reranker\.max_length must be between 1 and 48, .*, got 49"),
        ({"mix": 2}, r"reranker\.mix, .* got 2"),
        ({"candidates": -3}, r"reranker\.candidates must be .*, got -3"),
    ],
)
def test_wrong_parameters_are_refused_before_loading(tiny_classifier: Path, parameters: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        reranker(tiny_classifier, **parameters).check()


def with_positions_before_the_first_token(tiny: Path, folder: Path, kind: str) -> Path:
    """Make a cross-encoder with 48 positions, two of which hold no token."""
    import transformers

    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=30, max_position_embeddings=48, type_vocab_size=2, num_labels=1, pad_token_id=1, **shape
    )
    shutil.copytree(tiny, folder)
    getattr(transformers, f"{kind}ForSequenceClassification")(config).save_pretrained(folder)
    return folder


LONG = [("who sat", "cat mat stars moons the the cat " * 20)]


@pytest.mark.parametrize("kind", ["XLMRoberta", "MPNet"])
def test_positions_that_a_model_reserves_for_padding_are_no_room_for_tokens(
    tiny_classifier: Path, tmp_path: Path, kind: str
) -> None:
    folder = with_positions_before_the_first_token(tiny_classifier, tmp_path / "tiny", kind)
    with pytest.raises(ConfigError, match=r"reranker\.max_length must be between 1 and 46, .*, got 47"):
        reranker(folder, max_length=47).check()
    fitting = reranker(folder, max_length=46)
    fitting.check()
    assert len(fitting.score(LONG)) == 1


def test_model_whose_tokenizer_states_no_limit_reads_as_many_tokens_as_have_positions(
    tiny_classifier: Path, tmp_path: Path
) -> None:
    folder = with_positions_before_the_first_token(tiny_classifier, tmp_path / "tiny", "XLMRoberta")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["model_max_length"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    np.testing.assert_array_equal(reranker(folder).score(LONG), reranker(folder, max_length=46).score(LONG))
