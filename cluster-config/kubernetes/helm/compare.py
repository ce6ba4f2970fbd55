"""Compares two renderings: `compare.py KUSTOMIZE.yaml HELM.yaml`. Prints each difference, and exits with 1 if there is one.

Two differences are allowed. Kustomize adds a hash to the name of the ConfigMap, and the chart adds an annotation to the
pods instead: both restart the nodes after a change. node.toml may be written differently, with the same keys and values.
"""

import re
import sys
import tomllib
from pathlib import Path

import yaml

CONFIG_HASH = re.compile(r"^(holdfast)-[a-z0-9]{10}$")
CONFIG_ANNOTATION = "checksum/config"


def set_keys(text):
    """Returns the content of a TOML file; a table without keys, e.g. one with comments only, sets nothing."""
    return {key: value for key, value in tomllib.loads(text).items() if value != {}}


def objects(path):
    """Returns the objects of a file by kind and name, without the allowed differences."""
    found = {}
    for one in yaml.safe_load_all(Path(path).read_text()):
        if one is None:
            continue
        if one["kind"] == "ConfigMap":
            one["metadata"]["name"] = CONFIG_HASH.sub(r"\1", one["metadata"]["name"])
            one["data"] = {name: set_keys(text) for name, text in one["data"].items()}
        if one["kind"] == "StatefulSet":
            pod = one["spec"]["template"]
            annotations = pod["metadata"].get("annotations", {})
            annotations.pop(CONFIG_ANNOTATION, None)
            if not annotations:
                pod["metadata"].pop("annotations", None)
            for volume in pod["spec"]["volumes"]:
                if "configMap" in volume:
                    volume["configMap"]["name"] = CONFIG_HASH.sub(r"\1", volume["configMap"]["name"])
        key = f"{one['kind']} {one['metadata']['name']}"
        if key in found:
            sys.exit(f"{path} has two objects {key}")
        found[key] = one
    return found


def differences(path, kustomize, helm):
    """Yields a line for each value that differs, with its path."""
    if isinstance(kustomize, dict) and isinstance(helm, dict):
        for key in sorted(kustomize.keys() | helm.keys()):
            yield from differences(f"{path}.{key}" if path else key, kustomize.get(key), helm.get(key))
    elif isinstance(kustomize, list) and isinstance(helm, list) and len(kustomize) == len(helm):
        for index, (left, right) in enumerate(zip(kustomize, helm)):
            yield from differences(f"{path}[{index}]", left, right)
    elif kustomize != helm:
        yield f"{path}: Kustomize renders {kustomize!r}, the chart renders {helm!r}"


if __name__ == "__main__":
    expected, rendered = (objects(path) for path in sys.argv[1:])
    if not expected:
        sys.exit(f"{sys.argv[1]} has no object")
    lines = list(differences("", expected, rendered))
    print("\n".join(lines), end="\n" if lines else "")
    sys.exit(1 if lines else 0)
