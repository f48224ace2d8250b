"""A Redis server with the JSON commands, for tests: fakeredis on a free loopback port.

Prints the port alone on the first line of stdout and serves until stdin is closed or a signal ends it. Closing
stdin is how the parent's death is noticed, so a killed test run leaves no server behind.

Usage: fakeredis_server.py [--version 7.4] [--port N] [--documents FILE]

FILE holds {"key": document, …}: what is there when it begins to listen, as a server that persists has it after a restart.
"""

import argparse
import json
import os
import sys
import threading

from fakeredis import FakeRedis, TcpFakeServer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="7.4", help="Redis version to imitate (default 7.4)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    parser.add_argument("--documents", help="file of the documents to begin with")
    arguments = parser.parse_args()
    version = tuple(int(part) for part in arguments.version.split("."))

    server = TcpFakeServer(
        ("127.0.0.1", arguments.port), bind_and_activate=False, server_type="redis", server_version=version
    )
    if arguments.documents:
        client = FakeRedis(server=server.fake_server)
        with open(arguments.documents, encoding="utf-8") as documents:
            for key, document in json.load(documents).items():
                client.json().set(key, "$", document)
    server.allow_reuse_address = True
    server.server_bind()
    server.server_activate()
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)

    while os.read(sys.stdin.fileno(), 4096):
        pass
    # Handler threads may sit in a blocking read; nothing of theirs is worth waiting for.
    os._exit(0)


if __name__ == "__main__":
    main()
