import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.golden.anchors import MOST_WORDS, composed, in_order, nearest_passage, resolve, visible_words


@pytest.mark.parametrize(
    ("text", "anchor", "spans"),
    [
        ("One\n   two  three.\nFour", "two three.", [(7, 18)]),
        ("a b\tc", "  b\n\n c ", [(2, 5)]),
        ("a    b", "a", [(0, 1)]),
        ("na na na", "na na", [(0, 5), (3, 8)]),  # overlapping
        ("a b", " \n", []),
        ("a b", "A", []),
        ("Run pip install now", "**Run** `pip install`", [(0, 15)]),
        ("a **b** c, a b c", "a b c", [(11, 16)]),  # the source comes before the visible text
        ("10\u00b2 m", "102 m", []),  # a raised digit is another one
        ("le cafe\u0301  noir", "cafe", []),  # a part of a composed character
        ("le caf\u00e9  noir", "cafe", []),
    ],
)
def test_spans_are_of_the_given_text_in_any_white_space(text: str, anchor: str, spans: list[tuple[int, int]]) -> None:
    assert resolve(text, anchor) == spans


def test_start_keeps_only_the_occurrence_that_begins_there() -> None:
    assert resolve("to be or not to be", "to be", start=13) == [(13, 18)]
    assert resolve("to be or not to be", "to be", start=12) == []


WORDS = st.lists(st.text("ab\u00e9.*", min_size=1, max_size=3), min_size=1, max_size=30)
GAPS = st.text(" \n\t\u00a0", min_size=1, max_size=4)


@settings(deadline=None)
@given(st.data(), WORDS)
def test_any_run_of_words_is_found_where_it_stands(data: st.DataObject, words: list[str]) -> None:
    text, spans = data.draw(st.text(" \n", max_size=3)), []
    for word in words:
        spans.append((len(text), len(text) + len(word)))
        text += word + data.draw(GAPS)
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    span = spans[first][0], spans[last][1]
    found = resolve(text, " ".join(words[first : last + 1]))
    assert span in found
    assert resolve(text, " ".join(words[first : last + 1]), start=span[0]) == [span]
    assert all(text[a:b].split() == text[span[0] : span[1]].split() for a, b in found)


SOURCE = """# Install *it*

Run **`pip install`** or read
[the *guide*](guide.md "Guide"), see <http://x.org> &amp; \\*more\\*.

> Quoted **words**
> go on.

| name | what |
| --- | --- |
| `size` | in bytes |

```sh
make  all
```

* the end ![sign](a.png)
"""


@pytest.mark.parametrize(
    ("anchor", "found"),
    [
        ("Install it", "Install *it"),
        ("or read the guide, see", 'or read\n[the *guide*](guide.md "Guide"), see'),
        ("see http://x.org & *more*.", "see <http://x.org> &amp; \\*more\\*."),
        ("Quoted words go on.", "Quoted **words**\n> go on."),
        ("size in bytes", "size` | in bytes"),
        ("make all the end", "make  all\n```\n\n* the end"),
        ("Run **`pip install`** or", "Run **`pip install`** or"),
        ("Run `pip install` or", "Run **`pip install`** or"),
        ("__Quoted words__", "Quoted **words"),
    ],
)
def test_anchor_matches_the_source_and_the_visible_text_of_markdown(anchor: str, found: str) -> None:
    ((start, end),) = resolve(SOURCE, anchor)
    assert SOURCE[start:end] == found
    assert resolve(SOURCE, anchor, start) == [(start, end)]


@settings(deadline=None)
@given(st.text(st.sampled_from("ae\u0301\u0327\u00e9\u1100\u1161\u11a8\uac01\u212b \n"), max_size=30))
def test_any_text_in_any_normal_form_is_found_from_its_first_to_its_last_sign(words: str) -> None:
    text = f"x {words} x"
    for form in ("NFC", "NFD"):
        given_text = unicodedata.normalize(form, text)
        for quote in (text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)):
            assert resolve(given_text, quote) == [(0, len(given_text))]


def test_the_nearest_passage_of_a_long_quote_is_found_quickly() -> None:
    text = " ".join(f"word{n}" for n in range(2000))
    quote = " ".join([*(f"other{n}" for n in range(60)), "word1500 word1501", *(f"more{n}" for n in range(60))])
    found = nearest_passage(text, quote)  # once exponential in the words before the common ones
    assert found[0] == text.index("word1440")


def test_a_start_before_or_behind_the_blanks_of_a_quote_is_the_same_place() -> None:
    text = "a scurvy and no scurvy"
    found = [resolve(text, " scurvy", start) for start in (1, 2, 15, 16, 3)]
    assert found == [[(2, 8)], [(2, 8)], [(16, 22)], [(16, 22)], []]


SCRIPTS = {
    "Chinese": (
        "赤杨是一种树。它在水边能长到十米高\uff0c生长很快。红豆杉四季常青。",
        "它在水边能长到八米高\uff0c生长很快",
        "它在水边能长到十米高\uff0c生长很快",
    ),
    "Japanese": (
        "ハンノキは木です。水辺で十メートルまで育ちます。イチイは常緑樹です。",
        "水辺で八メートルまで育ちます",
        "水辺で十メートルまで育ちます",
    ),
    "Thai": (
        "ต้นไม้ริมน้ำโตได้สิบเมตร และโตเร็วมาก อีกต้นเขียวตลอดปี",
        "ริมน้ำโตได้แปดเมตร และโตเร็วมาก",
        "ริมน้ำโตได้สิบเมตร และโตเร็วมาก",
    ),
    "Khmer": ("ដើមឈើនៅក្បែរទឹកលូតលាស់ដល់ដប់ម៉ែត្រ។ វាលូតលាស់លឿន។", "ក្បែរទឹកលូតលាស់ដល់ប្រាំម៉ែត្រ", "ក្បែរទឹកលូតលាស់ដល់ដប់ម៉ែត្រ"),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_nearest_passage_in_a_script_without_spaces_is_not_the_whole_sentence(script: str) -> None:
    text, quote, passage = SCRIPTS[script]
    found = nearest_passage(text, quote)
    assert found is not None
    at, words = found
    assert abs(at - text.index(passage)) <= 3
    assert abs(len(words) - len(passage)) <= 6
    assert words[-4:] in text


@pytest.mark.parametrize("script", SCRIPTS)
def test_markup_within_a_script_without_spaces_does_not_hide_a_quote(script: str) -> None:
    text, _, passage = SCRIPTS[script]
    cut = len("".join(visible_words(passage)[:2]))
    marked = text.replace(passage, f"{passage[:cut]}**{passage[cut:]}**")
    assert resolve(marked, passage)
    assert in_order(composed(marked), visible_words(passage))


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("of\ufb01ce \ufb02ight", "office flight"),
        ("com\u00adpany re\u00ad\n  port", "company report"),
        ("foo \u00ad bar", "foo bar"),
        ("foo\u00a0\u00ad\u00ad \u00ad\n bar", "foo bar"),
        ("foo\u00ad \u00adbar", "foo bar"),
        ("cafe\u00ad\u0301", "caf\u00e9"),  # the accent combines across the hyphen
        ("\u314b\u3160", "\ud050"),  # compatibility letters combine as well
    ],
)
def test_ligatures_and_soft_hyphens_match_in_both_directions_and_separate_nothing(text: str, quote: str) -> None:
    for source, anchor in ((text, quote), (quote, text), (text, text)):
        assert resolve(f"The {source}.", anchor) == [(4, 4 + len(source))]


IGNORABLE = "ae \n\t\u00a0\u00ad\u200b\u200c\u200d\u2060\ufeff\u0301\u0327\u1100\u1161\u11a8\u314b\u3160\ufb01*`"


@settings(deadline=None)
@given(st.text(IGNORABLE, max_size=12))
def test_a_text_is_found_in_itself(middle: str) -> None:
    text = f"x{middle}y"
    assert resolve(text, text) == [(0, len(text))]
    assert resolve(f"\u00ad {text}", f"\u00ad {text}", start=0) == [(2, 2 + len(text))]


def test_time_is_linear_in_a_run_of_soft_hyphens() -> None:
    text = f"e\u0301 {'a' + 200_000 * chr(0xAD)}b"
    assert resolve(text, "ab") == [(3, len(text))]


def test_nearest_passage_is_searched_for_with_the_first_words_of_a_long_anchor() -> None:
    strange = " ".join(f"zz{n}" for n in range(MOST_WORDS))
    assert nearest_passage("The alder measures ten metres.", f"{strange} alder measures") is None
    assert nearest_passage("The alder measures ten metres.", f"alder measures {strange} {strange}") is not None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the **key** of", True),
        ("the [key](a/other.html) of", True),
        ("the key\n1. of", True),
        ("the other key of", False),
        ("the key, which is of", False),
    ],
)
def test_words_are_in_order_with_only_markup_between_them(text: str, found: bool) -> None:
    assert in_order(text, ["the", "key", "of"]) is found


def test_first_occurrence_of_a_word_may_be_in_markup() -> None:
    assert in_order('[the](a "key b") key key of', ["the", "key", "key", "of"])


MARKUP = st.sampled_from(
    ["{}", "**{}**", "`{}`", "<b>{}</b>", "[{}](cedar.html)", '[{}](a "beech b")', "![alder](x) {}", "\n\n1. {}\n\n"]
)


@settings(deadline=None)
@given(st.data(), st.lists(st.tuples(st.sampled_from(["alder", "beech", "cedar"]), MARKUP), min_size=2, max_size=8))
def test_a_quote_that_resolves_has_its_words_in_order(data: st.DataObject, words: list[tuple[str, str]]) -> None:
    low = data.draw(st.integers(0, len(words) - 1))
    high = data.draw(st.integers(low + 1, len(words)))
    text, quote = " ".join(markup.format(word) for word, markup in words), " ".join(word for word, _ in words[low:high])
    if resolve(text, quote):
        assert in_order(composed(text), visible_words(quote))
