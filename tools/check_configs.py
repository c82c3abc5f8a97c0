"""Every file of configs/ through the binary and the JSON Schema, and files both must refuse."""

import json
import re
import tempfile
from pathlib import Path

from check_run import HEADRACE, Failed, call

# What `headrace config check` must refuse, with a word its message has to hold.
REJECTED = {
    "unknown section": "modle: { kind: gpt2 }\n",
    "unknown key": "model: { kind: gpt2, layres: 4 }\n",
    "repeated section": "run: { steps: 1 }\nrun: { steps: 2 }\n",
    "bad number": "run: { steps: 08 }\n",
    "no map": "- 1\n- 2\n",
}
USAGE_EXIT = 2


def list_configs():
    if not Path(HEADRACE).exists():
        raise Failed(f"there is no {HEADRACE}; run the step build first")
    configs = sorted(Path("configs").glob("**/*.yaml"))
    if not configs:
        raise Failed("there is no file in configs/")
    return configs


def check_accepted():
    for path in list_configs():
        call([HEADRACE, "config", "check", str(path)], quiet=True, timeout=120)


def check_rejected():
    with tempfile.TemporaryDirectory(prefix="headrace-configs-") as folder:
        for what, text in REJECTED.items():
            path = Path(folder, what.replace(" ", "_") + ".yaml")
            path.write_text(text, encoding="utf-8")
            call([HEADRACE, "config", "check", str(path)], quiet=True, expected=USAGE_EXIT,
                 timeout=60, shown=f"config check refuses: {what}")


def make_loader():
    """YAML as our own reader takes it: 1e-4 is a number, only true and false are booleans."""
    import yaml  # pylint: disable=import-outside-toplevel

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {}

    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), "tf")
    Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:null|~|)$"),
                                 ["n", "~", ""])
    Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9]\d*)$"),
                                 "-+0123456789")
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?$"), "-+.0123456789")
    return yaml, Loader


def check_schema():
    configs = list_configs()
    import jsonschema  # pylint: disable=import-outside-toplevel

    schema = json.loads(call([HEADRACE, "config", "schema"], capture=True))
    validator_class = jsonschema.validators.validator_for(schema)
    validator_class.check_schema(schema)
    validator = validator_class(schema)
    yaml, loader = make_loader()
    for path in configs:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
        problems = [f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
                    for error in validator.iter_errors(document)]
        if problems:
            raise Failed(f"{path} does not fit the schema: " + "; ".join(problems))
        for section, broken in break_sections(document):
            if validator.is_valid(broken):
                raise Failed(f"{path}: the schema accepts an unknown key in {section}")
        print(f"{path} fits the schema; an unknown key in any section does not", flush=True)


def break_sections(document):
    """The document with one unknown key at the top, and one in each section that is a map."""
    yield "the top", {**document, "no_such_key": 1}
    for name, section in document.items():
        if isinstance(section, dict):
            yield name, {**document, name: {**section, "no_such_key": 1}}
