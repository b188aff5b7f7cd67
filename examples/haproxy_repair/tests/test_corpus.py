"""The manual is cut so that a document is about one section, or one keyword."""

from haproxy_repair.corpus import documents, read_manual

TEXT = """\
Summary
-------
4.    Proxies

4. Proxies
----------

Some prose :
  indented prose

4.2. Keywords
-------------

What follows is sorted.

balance <algorithm> [ <arguments> ]
balance url_param <param>
  Define the algorithm.

  Arguments :
    roundrobin  in turns

option checkcache
no option checkcache
  Analyze responses.

http-request set-header <name> <fmt>

  Set a header.

5. Options
----------
The end.
"""


def test_sections_and_keywords() -> None:
    found = {document["id"]: document["text"] for document in documents(TEXT)}
    assert list(found) == ["4", "4.2", "4.2 balance", "4.2 option checkcache", "4.2 http-request set-header", "5"]
    assert found["4.2 balance"].startswith("balance <algorithm>")
    assert found["4.2 balance"].endswith("roundrobin  in turns")
    assert "no option checkcache" in found["4.2 option checkcache"]


def test_no_text_of_the_manual_is_lost(manual: dict[str, str]) -> None:
    """All words behind the table of contents are in a document or a heading."""
    assert len(manual) > 1000
    body = read_manual().partition("\n1. Quick reminder about HTTP\n")[2]
    words = len(body.split())
    kept = sum(len(text.split()) for text in manual.values())
    assert words * 0.995 < kept <= words
    assert manual["4.2 timeout client"].startswith("timeout client <timeout>")
    assert "us : microseconds" in manual["2.5"]
