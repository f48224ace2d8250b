"""A Redis server with the JSON commands, for tests: fakeredis on a free loopback port.

Prints the port alone on the first line of stdout and serves until stdin is closed or a signal ends it. Closing
stdin is how the parent's death is noticed, so a killed test run leaves no server behind.

Usage: fakeredis_server.py [--version 7.4]
"""

import argparse
import os
import sys
import threading

from fakeredis import TcpFakeServer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="7.4", help="Redis version to imitate (default 7.4)")
    arguments = parser.parse_args()
    version = tuple(int(part) for part in arguments.version.split("."))

    server = TcpFakeServer(("127.0.0.1", 0), server_type="redis", server_version=version)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)

    while os.read(sys.stdin.fileno(), 4096):
        pass
    # Handler threads may sit in a blocking read; nothing of theirs is worth waiting for.
    os._exit(0)


if __name__ == "__main__":
    main()
