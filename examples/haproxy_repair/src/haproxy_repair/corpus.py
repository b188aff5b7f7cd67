"""Cut HAProxy's configuration manual into documents: ``python -m haproxy_repair.corpus FOLDER``.

A numbered section is a document, named by its number. The sections that list keywords are cut further, at each entry:
"4.2 balance" is the document of one keyword. An entry begins with lines that are not indented and no sentences, and the
text below is indented.
"""

import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MANUALS = (Path("/usr/share/doc/haproxy/configuration.txt.gz"), Path("/usr/share/doc/haproxy/configuration.txt"))
"""Location of the manual in Debian."""

BY_KEYWORD = re.compile(r"3\.[12]|4\.2|5\.[12]|7\.3\.\d")
"""Sections that are divided by keyword."""

HEADING = re.compile(r"^(\d+\.(?:\d+\.?)*) +(\S.*)\n-{4,}$", re.MULTILINE)
SENTENCE = re.compile(r"(?<!\.)\.$|:$")
WORD = re.compile(r"[A-Za-z0-9][\w.+-]*")


def read_manual() -> str:
    """Read the installed manual; raises FileNotFoundError, with the package's name, where there is none."""
    for path in MANUALS:
        if path.is_file():
            return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text("utf-8")
    raise FileNotFoundError(f"{MANUALS[0]} is missing: apt-get install haproxy haproxy-doc")


def documents(manual: str) -> list[dict[str, str]]:
    """Cut the manual into documents with id, title and text."""
    texts: dict[str, str] = {}
    titles: dict[str, str] = {}
    headings = list(HEADING.finditer(manual))
    ends = [heading.start() for heading in headings[1:]] + [len(manual)]
    for heading, end in zip(headings, ends, strict=True):
        number, title, body = heading[1].rstrip("."), heading[2], manual[heading.end() : end]
        for keyword, text in entries(body) if BY_KEYWORD.fullmatch(number) else [("", body)]:
            identifier = f"{number} {keyword}".strip()
            titles.setdefault(identifier, keyword or title)
            texts[identifier] = "\n\n".join(filter(None, [texts.get(identifier), text.strip("\n")]))
    return [{"id": key, "title": titles[key], "text": text} for key, text in texts.items() if text.strip()]


def entries(body: str) -> Iterator[tuple[str, str]]:
    """Yield keyword and text of each entry; the introduction has no keyword."""
    lines = body.split("\n")
    starts = []
    for number, line in enumerate(lines):
        following = next(filter(None, lines[number + 1 : number + 3]), "")
        if line[:1].strip() and not SENTENCE.search(line) and following.startswith("  "):
            first = number
            while first and lines[first - 1][:1].strip():
                first -= 1
            starts.append((first, number + 1))
    yield "", "\n".join(lines[: starts[0][0]] if starts else lines)
    for (first, last), (end, _) in zip(starts, [*starts, (len(lines), 0)][1:], strict=True):
        yield _keyword(lines[first:last]), "\n".join(lines[first:end])


def _keyword(headers: list[str]) -> str:
    """Return the name with the fewest words among the headers of an entry, the first of several."""
    names = sorted(filter(None, (_name(header.removeprefix("no ")) for header in headers)), key=len)
    return " ".join(names[0]) if names else ""


def _name(header: str) -> list[str]:
    """Return the literal words at the beginning of a header, up to its first argument."""
    words = []
    for word in header.split():
        if match := WORD.match(word):
            words.append(match[0])
        if not match or match.end() < len(word):
            break
    return words


def main() -> None:
    """Write the documents, the cases and the schema of outputs into a folder."""
    folder, package = Path(sys.argv[1]), Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    found = documents(read_manual())
    (folder / "manual.jsonl").write_text("".join(json.dumps(document) + "\n" for document in found), encoding="utf-8")
    for name in ("cases.jsonl", "schema.json"):
        (folder / name).write_bytes((package / name).read_bytes())
    print(f"{len(found)} documents of HAProxy's manual in {folder}")


if __name__ == "__main__":
    main()
