"""The elements of a configuration, and those unknown to HAProxy, from ``haproxy -dKall``.

An element is one of

- ``directive``: a section's heading, or the keyword of a line: known if HAProxy knows it in any section;
- ``option``: NAME of ``option NAME``;
- ``parameter``: the action of an http-request, http-response, http-after-response, tcp-request or tcp-response rule;
  the second word of timeout, balance, mode, stats, stick, http-check, tcp-check, redirect, compression, capture and
  hash-type; each setting of bind, server and default-server lines; each sample fetch and converter of an ``acl``, of a
  condition in braces, and of an expression ``%[...]``;
- ``value``: what has a range, and only that: ports (0 to 65535); times (a number with us, ms, s, m, h or d, below 2^31
  ms); maxconn, retries, rise, fall and other counts (whole numbers); weight (0 to 256); spread-checks (0 to 50 %); HTTP
  status codes (100 to 599; of redirects 301, 302, 303, 307 or 308).

``haproxy -dKall`` lists what is registered; keywords that are compiled into the parser are not in it and stand here.
"""

import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from haproxy_repair.lines import SECTIONS, Line, read_lines, word_set
from haproxy_repair.validator import find_haproxy

BUILT_IN = word_set("""
    busy-polling chroot cluster-secret daemon description expose-experimental-directives fd-hard-limit gid group
    h2-workaround-bogus-websocket-clients insecure-fork-wanted insecure-setuid-wanted localpeer log
    log-send-hostname log-tag master-worker max-spread-checks maxcompcpuusage maxcomprate maxconn maxconnrate
    maxpipes maxsessrate maxsslrate maxzlibmem node noepoll noevports nogetaddrinfo nokqueue nopoll noreuseport
    nosplice numa-cpu-mapping pidfile presetenv resetenv server-state-base server-state-file set-dumpable setenv
    spread-checks ssl-server-verify strict-limits tune.buffers.limit tune.buffers.reserve tune.bufsize
    tune.comp.maxlevel tune.http.cookielen tune.http.logurilen tune.http.maxhdr tune.idletimer tune.maxaccept
    tune.maxpollevents tune.maxrewrite tune.pattern.cache-size tune.pipesize tune.rcvbuf.client
    tune.rcvbuf.server tune.recv_enough tune.runqueue-depth tune.sndbuf.client tune.sndbuf.server uid ulimit-n
    unix-bind unsetenv user cpu-map external-check

    acl backlog balance bind bind-process capture cookie default-server default_backend disabled dispatch
    dynamic-cookie-key email-alert enabled error-log-format force-persist fullconn hash-balance-factor hash-type
    http-after-response http-request http-response http-reuse http-send-name-header id ignore-persist
    load-server-state-from-file log-format log-format-sd max-session-srv-conns mode monitor monitor-uri option
    persist redirect retries server server-state-file-name server-template source stats stick stick-table
    transparent unique-id-format unique-id-header use-server use_backend

    accepted_payload_size backing-file default-bind dgram-bind docroot format get-values hold index keep-conn
    log-stderr mailer max-age max-object-size max-reqs max-secondary-entries maxlen mpxs-conns nameserver
    parse-resolv-conf pass-header path-info peer process-vary resolve_retries set-param shards size table
    timeout total-max-size
""")
"""Keywords of the global section, of proxies, and of other sections."""

OPTIONS = word_set("""
    external-check forwardfor http-keep-alive http-restrict-req-hdr-names http-server-close httpchk httpclose
    httplog httpslog ldap-check mysql-check originalto pgsql-check redis-check redispatch smtpchk spop-check
    ssl-hello-chk tcp-check tcpka tcplog
""")

SECOND_WORDS = {
    "timeout": "check client client-fin connect http-keep-alive http-request queue server server-fin tarpit tunnel"
    " resolve retry mail",
    "balance": "roundrobin static-rr leastconn first source uri url_param hdr random rdp-cookie",
    "mode": "tcp http health",
    "stats": "admin auth enable hide-version http-request realm refresh scope show-desc show-legends show-modules"
    " show-node uri socket timeout maxconn bind-process",
    "stick": "match on store-request store-response",
    "http-check": "comment connect disable-on-404 expect send send-state set-var set-var-fmt unset-var",
    "tcp-check": "comment connect expect send send-binary send-binary-lf send-lf set-var set-var-fmt unset-var",
    "redirect": "location prefix scheme",
    "compression": "algo offload type",
    "capture": "cookie request response",
    "hash-type": "map-based consistent",
}
"""Words that may follow a directive."""

RULES = ("http-request", "http-response", "http-after-response", "tcp-request", "tcp-response")
RULE_WORDS = word_set("""
    accept capture close connection content expect-netscaler-cip expect-proxy inspect-delay reject session
    set-var set-var-fmt track-sc unset-var use-backend
""")
TIME_SETTINGS = word_set("inter fastinter downinter slowstart agent-inter pool-purge-delay tcp-ut")
NUMBER_SETTINGS = word_set("maxconn minconn maxqueue rise fall error-limit backlog id nice")
NUMBER_DIRECTIVES = word_set("maxconn retries nbthread fullconn backlog maxconnrate maxsessrate ulimit-n")
TIME_DIRECTIVES = word_set("hard-stop-after grace close-spread-time clitcpka-idle srvtcpka-idle")
REDIRECTS = frozenset({301, 302, 303, 307, 308})
UNITS = {"": 1.0, "us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 36e5, "d": 864e5}

TIME = re.compile(r"(\d+)(us|ms|s|m|h|d)?$")
PORTS = re.compile(r"(?<!:):\+?(-?\d+)(?:-(\d+))?$")
FETCHES = re.compile(r"%(?:\{[^}]*\})?\[([^\]]*)\]")
NAME = re.compile(r"[\w.+-]+")


class Element(NamedTuple):
    """An element of a configuration."""

    kind: str  # directive, option, parameter or value
    name: str
    line: int
    known: bool


class Grammar(NamedTuple):
    """The keywords of HAProxy."""

    directives: frozenset[str]
    options: frozenset[str]
    actions: frozenset[str]
    settings: dict[str, dict[str, int]]  # of bind and server lines, with the number of their arguments
    fetches: frozenset[str]
    converters: frozenset[str]


@cache
def read_grammar() -> Grammar:
    """Read the keywords of the installed HAProxy, once a process."""
    command = [find_haproxy(), "-dKall", "-q", "-c", "-f", "/dev/null"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
    blocks = {block.partition(":")[0]: block.split("\n")[1:] for block in listed.split("# List of registered ")}
    keywords = [line.split() for line in blocks["configuration keywords"] if line.startswith("\t")]
    settings: dict[str, dict[str, int]] = {"bind": {"ssl": 0}, "server": {}}
    for words in keywords:
        if words[0] in settings:
            name, count = (words[-2], int(words[-1].removeprefix("+"))) if words[-1].startswith("+") else (words[-1], 0)
            settings[words[0]][name] = count
    fetches = {_name(line.rpartition("] ")[2]) for line in blocks["sample fetch functions"] if "] " in line}
    return Grammar(
        directives=BUILT_IN | {words[0] for words in keywords} | set(SECTIONS),
        options=OPTIONS | {words[1] for words in keywords if words[0] == "option"},
        actions=RULE_WORDS | {words[-1].rstrip("*") for words in keywords if words[0] in RULES},
        settings=settings,
        fetches=frozenset(fetches | {_name(line) for line in blocks["ACL keywords"]}),
        converters=frozenset(_name(line) for line in blocks["sample converter functions"]),
    )


@lru_cache(4096)
def elements(text: str) -> tuple[Element, ...]:
    """List the elements of a configuration."""
    return tuple(element for line in read_lines(text) for element in _elements(line, read_grammar()))


def _elements(line: Line, grammar: Grammar) -> Iterator[Element]:
    def element(kind: str, name: str, known: bool) -> Element:
        return Element(kind, name, line.number, known)

    words = list(line.words)
    if words[0] in ("no", "default") and len(words) > 1:
        del words[0]
    first, rest = words[0], words[1:]
    yield element("directive", first, first in grammar.directives)
    if line.heading:
        return
    if first == "option" and rest:
        yield element("option", rest[0], rest[0] in grammar.options)
    if first in SECOND_WORDS and rest and not (first == "stats" and rest[0] == "socket"):
        yield element("parameter", rest[0], _name(rest[0]) in SECOND_WORDS[first].split())
    if first in RULES and rest:
        for word in rest[: 2 if rest[0] in ("connection", "content", "session") else 1]:
            yield element("parameter", word, _action(word) in grammar.actions)
    if first in ("bind", "server", "default-server"):
        yield from (element(*found) for found in _socket(first, rest, grammar))
    for fetch in _expressions(first, rest):
        name, *converters = [_name(part) for part in _arguments(fetch)]
        yield element("parameter", name, name in grammar.fetches)
        yield from (element("parameter", name, name in grammar.converters) for name in converters)
    yield from (element("value", f"{name} {value}", known) for name, value, known in _values(first, rest))


def _socket(first: str, rest: Sequence[str], grammar: Grammar) -> Iterator[tuple[str, str, bool]]:
    """Yield the settings of a bind, server or default-server line, and the values of those that have a range."""
    settings = grammar.settings["bind" if first == "bind" else "server"]
    addresses = {"bind": rest[:1], "server": rest[1:2]}.get(first, [])
    for address in (part for word in addresses for part in word.split(",")):
        if match := PORTS.search(address):
            yield "value", address, all(0 <= int(port) <= 65535 for port in match.groups() if port)
    position = {"bind": 1, "server": 2}.get(first, 0)
    while position < len(rest):
        name, value = rest[position], rest[position + 1] if position + 1 < len(rest) else ""
        known = name in settings or name in ("usesrc", "interface")
        yield "parameter", name, known
        if name == "weight":
            yield "value", f"{name} {value}", value.isdigit() and int(value) <= 256
        elif name == "port":
            yield "value", f"{name} {value}", value.isdigit() and 0 < int(value) <= 65535
        elif name in TIME_SETTINGS:
            yield "value", f"{name} {value}", is_time(value)
        elif name in NUMBER_SETTINGS:
            yield "value", f"{name} {value}", re.fullmatch(r"-?\d+", value) is not None
        unknown = int(value not in settings)  # an unknown setting: what follows is its value unless it is a setting
        position += 1 + (abs(settings.get(name, 0)) if known else unknown)


def _values(first: str, rest: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield name, value and validity of the checkable elements of other lines."""
    value = rest[0] if rest else ""
    if first == "timeout" and len(rest) > 1:
        yield rest[0], rest[1], is_time(rest[1])
    elif first in TIME_DIRECTIVES or (first == "stats" and value in ("refresh", "timeout")):
        yield first, rest[-1] if rest else "", bool(rest) and is_time(rest[-1])
    elif first in NUMBER_DIRECTIVES:
        yield first, value, value.isdigit()
    elif first == "spread-checks":
        yield first, value, value.isdigit() and int(value) <= 50
    elif first in ("errorfile", "errorloc", "errorloc302", "errorloc303"):
        yield first, value, _status(value)
    for name, following in pairwise(rest):
        if name in ("deny_status", "status") and first in (*RULES, "http-error"):
            yield name, following, _status(following)
        elif name == "code" and (first == "redirect" or "redirect" in rest[:1]):
            yield name, following, following.isdigit() and int(following) in REDIRECTS
        elif name in ("inspect-delay", "expire") and first in ("tcp-request", "tcp-response", "stick-table"):
            yield name, following, is_time(following)


def _expressions(first: str, rest: Sequence[str]) -> Iterator[str]:
    """Yield sample expressions: of an acl, of conditions in braces, and between ``%[`` and ``]``."""
    if first == "acl" and len(rest) > 1:
        yield rest[1]
    for brace, word in pairwise(rest):
        if brace in ("{", "!{") and {"if", "unless"} & set(rest):
            yield word
    for word in rest:
        yield from FETCHES.findall(word)


def _arguments(expression: str) -> list[str]:
    """Split an expression at the commas outside of parentheses."""
    parts, depth = [""], 0
    for sign in expression:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _name(text: str) -> str:
    """Return the name that a text begins with."""
    match = NAME.match(text.strip())
    return match[0] if match else ""


def _action(word: str) -> str:
    return re.sub(r"^(track-sc)\d+$", r"\1", word.partition("(")[0])


def _status(text: str) -> bool:
    return text.isdigit() and 100 <= int(text) <= 599


def is_time(text: str) -> bool:
    """Return whether a text is a time in HAProxy's format, below 2^31 milliseconds."""
    match = TIME.match(text)
    return match is not None and int(match[1]) * UNITS[match[2] or ""] < 2**31
