"""HAProxy itself decides, without a way out of its sandbox."""

import os
from pathlib import Path

import pytest

from haproxy_repair import validator
from haproxy_repair.validator import Message, check, read_verdict

GOOD = """\
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
listen web
    bind 127.0.0.1:8080
    server s1 10.0.0.1:80
"""
SAID = """\
[NOTICE]   (12) : haproxy version is 2.6
[ALERT]    (12) : config : parsing [repair.cfg:3] : unknown keyword 'x' in 'defaults' section
[WARNING]  (12) : config : parsing [repair.cfg:4] : 'bind' ignored
[ALERT]    (12) : config : [repair.cfg:9] : 'server a/b' : invalid port
[ALERT]    (12) : config : Proxy 'a': unable to find required default_backend: 'b'.
[WARNING]  (12) : config : missing timeouts for frontend 'a'.
   | While not properly invalid
[ALERT]    (12) : config : Error(s) found in configuration file : repair.cfg
[ALERT]    (12) : config : Fatal errors found in configuration.
"""


def test_alerts_with_file_and_line_are_errors_and_summaries_count_nothing() -> None:
    verdict = read_verdict(SAID, accepted=False)
    assert [alert.line for alert in verdict.alerts] == [3, 9, 0]
    assert (verdict.error_count, verdict.warning_count) == (2, 1)


def test_refusal_by_haproxy_without_a_line_is_one_error() -> None:
    verdict = check(GOOD.replace("listen web", "frontend web").replace("    server s1 10.0.0.1:80\n", "")
                    + "    default_backend nowhere\n")  # fmt: skip
    assert [alert.line for alert in verdict.alerts] == [0]
    assert verdict.error_count == 1


def test_good_configuration_is_accepted() -> None:
    assert check(GOOD) == validator.Verdict(True)


def test_broken_configuration_names_its_line() -> None:
    verdict = check(GOOD.replace("mode http", "moed http"))
    assert verdict.alerts == (
        Message(2, "config : parsing [repair.cfg:2] : unknown keyword 'moed' in 'defaults' section; did you mean"
                   " 'mode' maybe ?"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        ("I cannot repair this configuration.\n", "no configuration"),
        ("# only a comment\n", "no configuration"),
        (GOOD + "\x00", "control characters"),
        (GOOD + "\ud800", "control characters"),
        (GOOD * 1000, "longer than 65,536 bytes"),
        ("defaults\n errorfile 503 /etc/passwd\n", "errorfile 503 leaves"),
        ('defaults\n "error"file 503 /etc/passwd\n', "errorfile 503 leaves"),
        ("defaults\n error\\x66ile 503 /etc/passwd\n", "errorfile 503 leaves"),
        ("global\n lua-load /tmp/evil.lua\n", "lua-load /tmp/evil.lua leaves"),
        ("global\n setenv PATH /tmp\n", "setenv PATH leaves"),
        ("global\n ssl-engine evil\n", "ssl-engine evil leaves"),
        ('global\n log-tag "${HOME}"\n', "an environment variable"),
        ("global\n.if defined(HOME)\n.endif\n", ".if is for the preprocessor"),
        ("frontend f\n bind :443 ssl crt /etc/ssl/private/key.pem\n", "crt reads a file"),
        ("backend b\n server s 10.0.0.1:443 ssl ca-file /etc/ssl/certs/ca.pem\n", "ca-file reads a file"),
        ("frontend f\n acl a src -f /etc/hosts\n", "-f reads a file"),
        ("frontend f\n http-request set-header X %[src,map_ip(/etc/hosts)]\n", "reads a file"),
        ("frontend f\n http-request deny unless { var(txn.t),jwt_verify(RS256,/tmp/k) 1 }\n", "reads a file"),
        ("frontend f\n http-request return status 200 file /etc/passwd if TRUE\n", "file reads a file"),
        ("frontend f\n http-request add-acl(/tmp/x) %[src]\n", "reads a file"),
        ("frontend f\n filter spoe engine e config /tmp/spoe.cfg\n", "filter spoe reads a file"),
        ("backend b\n option external-check\n", "option external-check leaves"),
        ("backend b\n external-check command /bin/sh\n", "external-check command leaves"),
        ("program p\n command /bin/sh -c id\n", "a program"),
        ("resolvers r\n parse-resolv-conf\n", "parse-resolv-conf leaves"),
        ("ring r\n backing-file /tmp/ring\n", "backing-file /tmp/ring leaves"),
    ],
)
def test_outputs_that_leave_the_sandbox_are_refused_before_haproxy_starts(
    text: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("HAProxy was started")

    monkeypatch.setattr(validator, "_run", never)
    verdict = check(text)
    assert reason in verdict.refused
    assert (verdict.accepted, verdict.error_count) == (False, 1)


def test_paths_that_are_no_files_are_not_refused() -> None:
    text = GOOD + "    stats uri /stats\n    acl a path_beg /api\n    http-request deny if a { path_reg '^/$x' }\n"
    assert check(text).accepted


def test_haproxy_runs_as_nobody_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in its place shows what HAProxy would see."""
    fake = tmp_path / "haproxy"
    fake.write_text(
        '#!/bin/sh\necho "[ALERT] (1) : $(id -u) $(ls) $(env | grep -v -e ^PWD -e ^PATH -e ^OLDPWD -e ^_ -e ^SHLVL)"'
        "\nulimit -v\nexit 1\n"
    )
    fake.chmod(0o755)
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents[:2]:
        folder.chmod(0o755)
    monkeypatch.setattr(validator, "find_haproxy", lambda: str(fake))
    (alert,) = check(GOOD + "# as nobody\n").alerts
    uid, file, *variables = alert.text.split()
    assert uid == ("65534" if os.geteuid() == 0 else str(os.geteuid()))
    assert file == "repair.cfg"
    assert variables == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [("sleep 60", "took longer than 1 seconds"), ("kill -9 $$", "ended by signal 9"), ("yes", "ended by signal")],
)
def test_time_and_output_are_limited(body: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "haproxy"
    fake.write_text(f"#!/bin/sh\nexec 2>&1\n{body if body != 'yes' else 'exec yes'}\n")
    fake.chmod(0o755)
    for folder in [tmp_path, *tmp_path.parents[:2]]:
        folder.chmod(0o755)
    monkeypatch.setattr(validator, "find_haproxy", lambda: str(fake))
    monkeypatch.setattr(validator, "SECONDS", 1)
    assert reason in check(f"{GOOD}# {body}\n").refused


def test_missing_haproxy_is_one_error_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validator.shutil, "which", lambda *_, **__: None)
    with pytest.raises(FileNotFoundError, match="apt-get install haproxy"):
        check(GOOD + "# missing\n")
