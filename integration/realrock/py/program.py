"""What a program does with a sandbox that it has been given: commands, files, and the list. One line each on stdout.

Usage: program.py SANDBOX
"""

import sys

from e2b import ConnectionConfig, Sandbox
from packaging.version import Version

# This ROCK makes no sandboxes for the SDK, so there is none to get from create() or connect().
sandbox = Sandbox(
    sandbox_id=sys.argv[1],
    envd_version=Version("0.4.0"),
    envd_access_token=None,
    sandbox_domain=None,
    connection_config=ConnectionConfig(
        extra_sandbox_headers={"E2b-Sandbox-Id": sys.argv[1], "E2b-Sandbox-Port": str(ConnectionConfig.envd_port)}
    ),
)
print("running", sandbox.is_running())
print("command", sandbox.commands.run("echo hello").stdout.strip())
sandbox.files.write("/home/user/a.txt", "x" * 300_000)
print("file", len(sandbox.files.read("/home/user/a.txt")))
print("listed", [s.sandbox_id for s in Sandbox.list().next_items()] == [sys.argv[1]])
try:
    print("killed", sandbox.kill())
except Exception as error:
    print("kill raises", type(error).__name__)
