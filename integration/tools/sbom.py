"""Checks a bill of materials: against CycloneDX's own schema, and that it has every module of the binary it is of.

sbom.py FILE < `go version -m -json BINARY`
"""

import json
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

text = open(sys.argv[1], encoding="utf-8").read()
bom = json.loads(text)
wrong = []
if error := JsonStrictValidator(SchemaVersion.from_version(bom["specVersion"])).validate_str(text):
    wrong.append("not as the schema wants it: " + str(error).splitlines()[0])

linked = {}
for module in json.load(sys.stdin)["Deps"]:
    module = module.get("Replace") or module
    linked[module["Path"]] = module["Version"]
listed = {c["name"]: c for c in bom["components"]}
for path, version in linked.items():
    component = listed.get(path)
    if component is None:
        wrong.append(f"{path} is linked and not listed")
    elif component["version"] != version:
        wrong.append(f"{path} is {version} in the binary and {component['version']} in the list")
    elif not component.get("evidence", {}).get("licenses") and not component.get("licenses"):
        wrong.append(f"{path} has no licence")
for path in listed.keys() - linked.keys() - {"std"}:
    wrong.append(f"{path} is listed and not linked")

for line in wrong:
    print(f"sbom: {line}", file=sys.stderr)
print(f"sbom: CycloneDX {bom['specVersion']}, {len(listed)} components, {len(linked)} modules linked, {len(wrong)} faults", file=sys.stderr)
sys.exit(1 if wrong else 0)
