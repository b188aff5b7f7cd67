"""A secret is masked where it is written, and refused where other programs would write it."""

import logging

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.secrets import MASK, Secrets, is_secret, mask, refuse_secrets


def test_values_of_secret_names_are_masked_at_any_depth() -> None:
    tree = {"llm": {"api_key": "sk-1", "items": [{"password": "p"}], "model": "m"}, "token": None, "secret": ""}
    masked = {"llm": {"api_key": MASK, "items": [{"password": MASK}], "model": "m"}, "token": None, "secret": ""}
    assert mask(tree) == masked
    similar = dict.fromkeys(["monkey", "max_tokens", "top_k", "keyword", "secretary"], "value")
    assert mask(similar) == similar


@pytest.mark.parametrize(
    "line",
    ["llm.api_key=sk-1", "+judge.token=x", "password=x", "+my={api_key: sk-12345}", "my={a: {passwd: sk-1}}",
     "a.api_key='${oc.env:X,sk-1}'"],
)  # fmt: skip
def test_secret_on_the_command_line_is_refused_without_repeating_it(line: str) -> None:
    with pytest.raises(ConfigError, match="in an environment variable") as fault:
        refuse_secrets([line])
    assert "sk-1" not in str(fault.value)
    refuse_secrets(["llm.api_key=${oc.env:OPENAI_API_KEY}", "llm.api_key=null", "top_k=3"])


@pytest.mark.parametrize(
    "name",
    ["api_keys", "passwords", "tokens", "auth", "bearer", "cookie", "session", "dsn", "connection_string", "pwd", "jwt",
     "sas", "oauth", "creds", "webhook", "pin", "basicAuth", "connectionString", "refresh_tokens[0]",
     "Authorization", "passwd", "apiKey", "client-secret", "db_pwd", "credentials", "accessToken", "passphrase"],
)  # fmt: skip
def test_names_of_secrets_are_masked_and_refused(name: str) -> None:
    assert mask({name: ["value"], "more": {name: {"user": "value"}}}) == {name: [MASK], "more": {name: {"user": MASK}}}
    with pytest.raises(ConfigError, match="in an environment variable"):
        refuse_secrets([f"my.{name}=value"])


def test_number_of_tokens_and_folder_of_the_shell_are_no_secrets() -> None:
    budget = {"budget": {"tokens": 1000, "max_tokens": 5}, "author": "a", "needs_auth": True}
    assert mask(budget) == budget
    refuse_secrets(["budget.tokens=1000", "budget.tokens=1000,2000", "budget.tokens=null"])
    assert not is_secret("PWD")


def test_count_under_a_misspelt_key_is_no_secret_on_the_command_line() -> None:
    refuse_secrets(["constraints.context_token=150", "llm.max_token=100,200", "+my={context_token: 150}"])
    for line in ("llm.token=sk-150", "llm.token=150,sk-1", "llm.password=150", "llm.api_key=150", "my.token.user=150"):
        with pytest.raises(ConfigError, match="in an environment variable"):
            refuse_secrets([line])
    assert mask({"context_token": 150}) == {"context_token": MASK}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:geheim@host/a", "http://me:***@host/a"),
        ("https://ghp_0123456789abcdef@host/a", "https://***@host/a"),
        ("ssh://git@host/a", "ssh://git@host/a"),
        ("see https://host/a?key=geheim&page=2&sig=g%2Fh.", "see https://host/a?key=***&page=2&sig=***"),
        ("https://host/a?X-Amz-Signature=abc", "https://host/a?X-Amz-Signature=***"),
        ("https://host/a?key=${oc.env:NAME}", "https://host/a?key=${oc.env:NAME}"),
        ("what?key=1", "what?key=1"),
    ],
)
def test_secrets_of_a_url_are_masked(text: str, shown: str) -> None:
    assert Secrets().mask_text(text) == shown


def test_key_or_password_in_a_url_on_the_command_line_is_refused() -> None:
    for what, url in (("key", "https://host/a?sig=geheim"), ("password", "postgresql://me:geheim@host/x")):
        with pytest.raises(ConfigError, match=f"a {what} in a URL on the command line") as fault:
            refuse_secrets([f"dataset.corpus={url}"])
        assert "geheim" not in str(fault.value)


def test_secret_is_masked_in_keys_and_counts_under_keys_that_become_one_are_added() -> None:
    secrets = Secrets()
    for value in ("hunter-first", "hunter-other"):
        secrets.add(value, named=True)
    reasons = {"failed with hunter-first": 2, "failed with hunter-other": 3, "other": 1}
    assert secrets.mask_tree({"reasons": reasons}) == {"reasons": {"failed with ***": 5, "other": 1}}


def test_output_has_no_control_characters(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    with Secrets().masking():
        print("a\x1b]52;c;eA==\x07b \x1b[31mred\x1b[0m \u202e \x9b2J\tend")
        logging.getLogger("any").warning("%s", "\x1b[2J\rx")
    assert capsys.readouterr().out == "a\\u001b]52;c;eA==\\u0007b red \\u202e \\u009b2J\tend\n"
    assert caplog.messages == ["\\u001b[2J\\u000dx"]
