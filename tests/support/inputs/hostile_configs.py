"""Configs that would do harm if they were executed, each with the key that its refusal must name."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Payload:
    """A command, the files in its folder, and the key that the one-sentence refusal must name."""

    arguments: list[str]
    key: str
    files: dict[str, str] = field(default_factory=dict)


def _typed(target: str, arguments: str = "") -> Payload:
    return Payload([f"++reranker={{_target_: {target}{arguments}}}"], "reranker._target_")


def _option(text: str, key: str, group: str = "reranker") -> Payload:
    return Payload([f"{group}=evil"], key, {f"conf/{group}/evil.yaml": text})


def _global(text: str, key: str, *arguments: str) -> Payload:
    """Return an option of a harmless group that changes other parts of the config."""
    return Payload(["+more=evil", *arguments], key, {"conf/more/evil.yaml": f"# @package _global_\n{text}"})


def _searched(*arguments: str) -> Payload:
    """Return an option in a folder that the arguments add to Hydra's search path."""
    return Payload([*arguments, "reranker=evil"], "reranker._target_", {"more/reranker/evil.yaml": _TARGET})


def _named(sweeper: str, key: str) -> Payload:
    """Return a named sweep with its own settings of the sweeper."""
    text = f"# @package _global_\nhydra: {{mode: MULTIRUN, sweeper: {{{sweeper}}}}}"
    return Payload(["sweeps=evil"], key, {"sweeps/evil.yaml": text})


_TARGET = "_target_: canary.act"
_CALLED = "_target_: canary.act, path: pwned"
_HANDLER = "hydra.job_logging.handlers.file"

PAYLOADS = {
    # Functions that configs of similar programs have called, here as parts.
    "os.system": _typed("os.system", arguments=", command: 'touch pwned'"),
    "alias in logging": _typed("logging.os.system", arguments=", command: 'touch pwned'"),
    "alias in our package": _typed("ragsweep.commands.cli.os.system", arguments=", command: 'touch pwned'"),
    "alias in a package of parts": _typed("ragsweep.parts.rerankers.os.system", arguments=", command: 'touch pwned'"),
    "subprocess": _typed("subprocess.run", arguments=", args: [touch, pwned]"),
    "eval": _typed("builtins.eval", arguments=", source: '1'"),
    "pickle in numpy": _typed("numpy.load", arguments=", file: x.npy, allow_pickle: true"),
    "pickle in torch": _typed("torch.load", arguments=", f: x.pt"),
    "pickle in joblib": _typed("joblib.load", arguments=", filename: x"),
    "pickle in pandas": _typed("pandas.read_pickle", arguments=", filepath_or_buffer: x"),
    "spawn in setuptools": _typed("setuptools._distutils.spawn.spawn", arguments=", cmd: [touch, pwned]"),
    "sympify": _typed("sympy.sympify", arguments=", a: '1'"),
    "file of pathlib": _typed("pathlib.Path.write_text", arguments=", data: x"),
    "address in urllib": _typed("urllib.request.urlopen", arguments=", url: 'http://localhost:9'"),
    "code of ctypes": _typed("ctypes.CDLL", arguments=", name: x.so"),
    "Hydra's own call": _typed("hydra.utils.call", arguments=", config: {_target_: canary.act}"),
    "our ledger is not a part": _typed("ragsweep.records.ledger.Ledger", arguments=", folder: elsewhere"),
    "our command is not a part": _typed("ragsweep.__main__.main"),
    "a contract suite is not a part": _typed("ragsweep.testing.rerankers.RerankerContract"),
    "package that nobody trusts": _typed("canary.act"),
    "no word": Payload(["++reranker={_target_: [os, system]}"], "reranker._target_"),
    "name that comes from elsewhere": Payload(
        ["+name=canary.act", "++reranker={_target_: '${name}'}"], "reranker._target_"
    ),
    "name in a variable": Payload(["++reranker={_target_: '${oc.env:EVIL,canary.act}'}"], "reranker._target_"),
    # Places in a config where a target can be hidden.
    "nested in a list": Payload([f"+reranker.more=[1,{{{_CALLED}}}]"], "reranker.more[1]._target_"),
    "nested in a mapping": Payload([f"+reranker.a={{b: {{c: {{{_CALLED}}}}}}}"], "reranker.a.b.c._target_"),
    "in arguments": Payload([f"+chunker._args_=[{{{_CALLED}}}]"], "chunker._args_[0]._target_"),
    "partial": Payload([f"++reranker={{{_CALLED}, _partial_: true}}"], "reranker._target_"),
    "not recursive": Payload([f"++reranker={{{_CALLED}, _recursive_: false}}"], "reranker._target_"),
    "partial of a part": Payload(["+chunker._partial_=true"], "chunker._partial_"),
    "key of its own": Payload([f"+innocent={{{_CALLED}}}"], "innocent._target_"),
    "metric": Payload([f"+metrics.mine={{{_CALLED}}}"], "metrics.mine._target_"),
    "tracker": _option("_target_: canary.act\n", "tracking._target_", "tracking"),
    "target": Payload([f"+targets.mine={{{_CALLED}}}"], "targets.mine._target_"),
    # Files and overrides in which a target can be written.
    "option file": _option("_target_: canary.act\n", "reranker._target_"),
    "option for everything": _global(f"reranker: {{{_CALLED}}}\n", "reranker._target_"),
    "folder of configs": _searched("--config-dir", "more"),
    "searched folder": _searched("hydra.searchpath=[file://more]"),
    "sweep": Payload(["-m", "reranker._target_=ragsweep.parts.rerankers.NoReranker,canary.act"], "reranker._target_"),
    "named sweep": _named("params: {reranker._target_: canary.act}", "reranker._target_"),
    "case": Payload(["-m", 'hydra.sweeper.cases=[["reranker._target_=canary.act"]]'], "reranker._target_"),
    "search": Payload(
        ["-m", "hydra/sweeper=optuna", "reranker._target_=ragsweep.parts.rerankers.NoReranker,canary.act"],
        "reranker._target_",
    ),
    "search, beside a value": Payload(
        [
            "-m",
            "hydra/sweeper=optuna",
            "top_k=3,5",
            "hydra.sweeper.params={reranker._target_: {over: 'canary.act,canary.go', when: top_k=5}}",
        ],
        "reranker._target_",
    ),
    "enqueued": Payload(
        ["-m", "hydra/sweeper=optuna", "top_k=3,5", 'hydra.sweeper.enqueue=[["reranker._target_=canary.act"]]'],
        "reranker._target_",
    ),
    "function of a search": Payload(
        ["-m", "hydra/sweeper=optuna", "hydra.sweeper.custom_search_space=canary.act"],
        "hydra.sweeper.custom_search_space",
    ),
    # What Hydra itself imports and calls.
    "package to search": Payload(["hydra.searchpath=[pkg://canary]"], "hydra.searchpath"),
    "package to search, from a case": Payload(
        ["-m", 'hydra.sweeper.cases=[["hydra.searchpath=[pkg://canary]"]]'], "hydra.searchpath"
    ),
    "package to search, spelt elsewhere": Payload(
        ["hydra.searchpath=['${oc.env:EVIL,pkg://canary}']"], "hydra.searchpath"
    ),
    "callback": Payload([f"+hydra.callbacks.mine={{{_CALLED}}}"], "hydra.callbacks"),
    "callback from an option": _global(f"hydra: {{callbacks: {{mine: {{{_CALLED}}}}}}}\n", "hydra.callbacks"),
    "callback among our modules": Payload(
        ["+hydra.callbacks.mine={_target_: ragsweep.stages.store.os.system, command: 'touch pwned'}"],
        "hydra.callbacks",
    ),
    "launcher": Payload(["-m", "hydra.launcher._target_=canary.act"], "hydra.launcher._target_"),
    "sweeper": Payload(["-m", "hydra.sweeper._target_=canary.act"], "hydra.sweeper._target_"),
    "nested in the launcher": Payload([f"+hydra.launcher.more={{{_CALLED}}}"], "hydra.launcher.more._target_"),
    "nested in a case": Payload([f"hydra.sweeper.cases=[{{{_CALLED}}}]"], "hydra.sweeper.cases[0]._target_"),
    "commands of a launcher": Payload(
        ["hydra/launcher=submitit_local", "+hydra.launcher.setup=['touch pwned']"], "hydra.launcher.setup[0]"
    ),
    "commands of SLURM": Payload(
        ["hydra/launcher=submitit_slurm", "hydra.launcher.setup=['touch pwned']"], "hydra.launcher.setup[0]"
    ),
    "option in a setting of SLURM": Payload(
        ["hydra/launcher=submitit_slurm", "hydra.launcher.partition='a --prolog=pwned'"], "hydra.launcher.partition"
    ),
    "packages of a launcher": Payload(
        ["hydra/launcher=ray", "+hydra.launcher.ray.init.runtime_env={pip: [evil]}"],
        "hydra.launcher.ray.init.runtime_env.pip[0]",
    ),
    "cluster of a launcher": Payload(
        ["hydra/launcher=ray", "hydra.launcher.ray.init.address='ray://elsewhere:10001'"],
        "hydra.launcher.ray.init.address",
    ),
    "sum of a launcher": Payload(
        ["hydra/launcher=joblib", "hydra.launcher.pre_dispatch='9**9**9'"], "hydra.launcher.pre_dispatch"
    ),
    "arguments of a launcher": Payload(
        ["hydra/launcher=joblib", "+hydra.launcher._args_=[1]"], "hydra.launcher._args_[0]"
    ),
    "node of Hydra's that nobody reads": Payload([f"+hydra.more={{{_CALLED}}}"], "hydra.more._target_"),
    "log handler's factory": _global("hydra: {job_logging: {handlers: {file: {(): canary.act}}}}", f"{_HANDLER}.()"),
    "log handler's class": Payload([f"{_HANDLER}.class=canary.act"], f"{_HANDLER}.class"),
    "log handler's class, from elsewhere": Payload(
        ["+name=canary.act", f"{_HANDLER}.class='${{name}}'"], f"{_HANDLER}.class"
    ),
    "log formatter": Payload(["+hydra.job_logging.formatters.simple.class=canary.act"], "formatters.simple.class"),
    "log filter": _global("hydra: {job_logging: {filters: {f: {(): canary.act}}}}", "hydra.job_logging.filters.f.()"),
    "log's object": Payload([f"+{_HANDLER}.more='ext://canary.act'"], f"{_HANDLER}.more"),
    "log's attribute": _global("hydra: {job_logging: {handlers: {file: {.: {level: pwned}}}}}", f"{_HANDLER}...level"),
    "log over the network": Payload(
        [f"++{_HANDLER}={{class: logging.handlers.SocketHandler, host: localhost, port: 9}}"], f"{_HANDLER}.class"
    ),
    "log outside": Payload([f"{_HANDLER}.filename=/tmp/pwned"], f"{_HANDLER}.filename"),
    "log outside by the job's name": Payload(["hydra.job.name=../../pwned"], f"{_HANDLER}.filename"),
    "log handler's argument": Payload([f"+{_HANDLER}.maxBytes=1"], f"{_HANDLER}.maxBytes"),
    "log into a file of the user's": Payload(
        ["hydra.run.dir=.", f"{_HANDLER}.filename='${{hydra.runtime.output_dir}}/.bashrc'"], f"{_HANDLER}.filename"
    ),
    "log in a format of its own": Payload(
        ["hydra.job_logging.formatters.simple.format='touch pwned #'"], "hydra.job_logging.formatters.simple.format"
    ),
    "log with lines of its own for a date": Payload(
        ["+hydra.job_logging.formatters.simple.datefmt='touch pwned #'"], "hydra.job_logging.formatters.simple.datefmt"
    ),
    "log of Hydra's in a format of its own": Payload(
        ["+hydra.hydra_logging.formatters={own: {fmt: 'touch pwned #'}}"], "hydra.hydra_logging.formatters.own.fmt"
    ),
    "log of Hydra": _global(
        "hydra: {hydra_logging: {handlers: {none: {(): canary.act}}}}", "hydra.hydra_logging.handlers.none.()"
    ),
    "log of a job of a sweep": Payload(
        ["-m", "+more=good,evil"],
        f"{_HANDLER}.class",
        {
            "conf/more/good.yaml": "",
            "conf/more/evil.yaml": "# @package _global_\n"
            "hydra: {job_logging: {handlers: {file: {class: canary.act}}}}\n",
        },
    ),
    "log of a job that chooses its logging": Payload(
        ["-m", 'hydra.sweeper.cases=[["hydra/job_logging=evil"]]'],
        f"{_HANDLER}.class",
        {
            "conf/hydra/job_logging/evil.yaml": "version: 1\n"
            "handlers: {file: {class: canary.act}}\nroot: {handlers: [file]}\n"
        },
    ),
    "loggings to choose from": Payload(["-m", f"{_HANDLER}.class=logging.FileHandler,canary.act"], f"{_HANDLER}.class"),
    "log by a value of one job": Payload(
        ["-m", f"{_HANDLER}.class='${{more.name}}'", "+more.name=logging.FileHandler,canary.act"], f"{_HANDLER}.class"
    ),
    "trust by a variable": Payload(
        ["+hydra.job.env_set.RAGSWEEP_TRUSTED_PACKAGES=canary"], "hydra.job.env_set.RAGSWEEP_TRUSTED_PACKAGES"
    ),
    "programs by a variable": Payload(["+hydra.job.env_set.PATH=."], "hydra.job.env_set.PATH"),
    "secrets into a file by a variable": Payload(
        ["hydra.job.env_copy=[CANARY_TOKEN]"], "hydra.job.env_set.CANARY_TOKEN"
    ),
    "files of Hydra outside": Payload(["hydra.output_subdir=../../.."], "hydra.output_subdir"),
    "secret as a value": Payload(["+note='${oc.env:CANARY_TOKEN}'"], "note"),
    "help": Payload(["--help", "hydra.hydra_logging.handlers.none.class=canary.act"], "handlers.none.class"),
    "info": Payload(["--info", "config", "hydra.searchpath=[pkg://canary]"], "hydra.searchpath"),
    "help on another config": Payload(["--help", "--config-name", "evil"], "--config-name"),
    "run of an earlier job": Payload(["--help", "--experimental-rerun", "job.pickle"], "--experimental-rerun"),
    # What a config file can contain besides values.
    "YAML that calls": _option("!!python/object/apply:canary.act [pwned]\n", "conf/reranker/evil.yaml:1:1"),
    "YAML that names": _option("a: !!python/name:canary.act\n", "conf/reranker/evil.yaml:1:4"),
    "YAML that imports": _option("a: 1\nb: !!python/module:canary\n", "conf/reranker/evil.yaml:2:4"),
    "YAML of its own kind": _option("!canary [pwned]\n", "conf/reranker/evil.yaml:1:1"),
}

_LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
_ECHOES = ["+e0={x: 1, y: 2}", *(f"+e{n}={{x: '${{e{n - 1}}}', y: '${{e{n - 1}}}'}}" for n in range(1, 40))]
_DOUBLES = ["+d0=xxxxxxxxxx", *(f"+d{n}='${{d{n - 1}}}${{d{n - 1}}}'" for n in range(1, 40))]

BOMBS = {
    "aliases": _option(_LAUGHS, "conf/reranker/evil.yaml:"),
    "merged aliases": _option(
        "a0: &a0 {k: 1}\n"
        + "".join(f"a{n}: &a{n} {{x: *a{n - 1}, <<: *a{n - 1}, y: *a{n - 1}}}\n" for n in range(1, 30)),
        "conf/reranker/evil.yaml:",
    ),
    "alias of itself": _option("a: &a [*a]\n", "conf/reranker/evil.yaml:1:8"),
    "deep list": _option("a: " + "[" * 100_000 + "]" * 100_000, "conf/reranker/evil.yaml:1:"),
    "deep mapping": _option("a: " + "{a: " * 100_000 + "1" + "}" * 100_000, "conf/reranker/evil.yaml:1:"),
    "deep blocks": _option("".join(f"{' ' * n}a:\n" for n in range(2_000)), "conf/reranker/evil.yaml:41:"),
    "deep interpolation": _option(f"a: '{'${a' * 30_000}{'}' * 30_000}'", "conf/reranker/evil.yaml:1:4"),
    "deep override": Payload(["+a=" + "[" * 60_000 + "]" * 60_000], "+a"),
    "deep mapping typed": Payload(["+a=" + "{a:" * 30_000 + "1" + "}" * 30_000], "+a"),
    "deep override in a case": _named(f"cases: [['+a={'[' * 50_000}']]", "sweeps/evil.yaml:2:"),
    "echoing mappings": Payload([*_ECHOES, "+chunker.a='${e39}'"], "e"),
    "doubling text": Payload([*_DOUBLES, "dataset.golden='${d39}'"], "d"),
    "doubling text for Hydra": Payload([*_DOUBLES, "hydra.job.name='${d39}'"], "d"),
    "doubling in a folder's name": Payload([*_DOUBLES, "store.path='${d39}'"], "d"),
    "doubling by a resolver": Payload(
        ["+r0=x", *(f"+r{n}='${{oc.select:r{n - 1}}}${{oc.select:r{n - 1}}}'" for n in range(1, 40))], "r"
    ),
    "doubling by names put together": Payload(
        ["+n={0: '0'}", "+k={a: x}", *(f"+k{n}='${{.k.${{n.0}}}}${{.k.${{n.0}}}}'" for n in range(1, 10))],
        "inside interpolations",
    ),
    "chain": _option("c0: 1\n" + "".join(f"c{n}: ${{reranker.c{n - 1}}}\n" for n in range(1, 2_000)), "config"),
    "sweep without end": Payload(["-m", "top_k=range(1,1000000000)"], "top_k="),
    "sweep of sweeps": Payload(["-m", *(f"+s{n}=range(0,100)" for n in range(6))], "+s2="),
}
