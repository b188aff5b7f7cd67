"""Prompts in MLflow's registry: one version per prompt text, linked to the runs that use it."""

import logging
import re
from collections.abc import Mapping
from contextlib import nullcontext
from string import Formatter
from typing import Any

from ragsweep.core.results import Run
from ragsweep.parts.tracking.connection import Connection, OpenRun
from ragsweep.parts.tracking.database import database_path

_log = logging.getLogger(__name__)


def link(connection: Connection, run: OpenRun, config: Run) -> None:
    """Link a run to its config's LLM prompt, and register the prompt if it is new; do nothing if there is no prompt.

    If the prompt cannot be registered or linked, a warning is logged, and this connection links no more prompts.
    """
    prompt = (config.config.get("llm") or {}).get("prompt")
    if not isinstance(prompt, Mapping) or connection.prompts is None:
        return
    name = f"ragsweep-{re.sub('[^a-zA-Z0-9_.-]', '_', config.parameters.get('prompt', 'prompt'))}"
    try:
        with connection.as_default(run.experiment):
            key = f"{name} {prompt}"
            if key not in connection.prompts:
                connection.prompts[key] = _version(connection, name, prompt)
            connection.client.link_prompt_version_to_run(run.id, connection.prompts[key])
    except Exception as fault:  # such as a registry without prompts; config.yaml has the prompt
        connection.prompts = None
        reason = str(fault).partition("\n")[0] or type(fault).__name__
        _log.warning("prompts are not registered in MLflow, only recorded in each run's config.yaml: %s", reason)


def _version(connection: Connection, name: str, prompt: Mapping[str, Any]) -> Any:
    """Return the registered version of a prompt; register one if none has the same text and tags.

    If the database is a file, a lock prevents other processes from registering the same prompt at the same time.
    """
    from filelock import FileLock

    template: list[dict[str, Any]] = [
        {"role": role, "content": _in_double_braces(str(prompt.get(key, "")))}
        for role, key in (("system", "system"), ("user", "question"))
    ]
    shown = ("_target_", "system", "question")
    tags = {key: str(value) for key, value in prompt.items() if key not in shown}
    client, path = connection.client, database_path(connection.uri)
    with FileLock(path.with_name(f"{path.name}.lock")) if path else nullcontext():
        known = client.search_prompt_versions(name) if client.search_prompts(f"name = '{name}'") else ()
        same = (one for one in known if one.template == template and one.tags == tags)
        return next(same, None) or client.register_prompt(name, template, tags=tags)


def _in_double_braces(template: str) -> str:
    """Return a template with its placeholders ``{field}`` in MLflow's form ``{{field}}``."""
    parts = Formatter().parse(template)
    return "".join(text + ("" if field is None else f"{{{{{field}}}}}") for text, field, *_ in parts)
