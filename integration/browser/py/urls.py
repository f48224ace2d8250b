"""Makes a sandbox with a file in it and prints its URLs, waits for a line, prints what was uploaded, and ends the sandbox.

Usage: urls.py --api sync
"""

import json
import os
import sys

from e2b import Sandbox

PATH, UPLOADED, UPLOADED_IN_TIME = "/home/user/a file + more", "/home/user/by page", "/home/user/by page in time"

sandbox = Sandbox.create(template=os.environ["E2B_TEMPLATE_ID"], timeout=300, request_timeout=60)
sandbox.files.write(PATH, "żółw, 東京")
print(
    json.dumps(
        {
            "sandbox": sandbox.sandbox_id,
            "host": sandbox.get_host(8000),
            "token": sandbox.connection_config.sandbox_headers["X-Access-Token"],
            "download": sandbox.download_url(PATH),
            "downloadExpires": sandbox.download_url(PATH, use_signature_expiration=120),
            "downloadExpired": sandbox.download_url(PATH, use_signature_expiration=-120),
            "upload": sandbox.upload_url(UPLOADED),
            "uploadExpires": sandbox.upload_url(UPLOADED_IN_TIME, use_signature_expiration=120),
        }
    ),
    flush=True,
)
sys.stdin.readline()
print(json.dumps([sandbox.files.read(UPLOADED), sandbox.files.read(UPLOADED_IN_TIME)]), flush=True)
sandbox.kill()
# The interpreter is not asked to shut down: the newest SDK's native threads may abort it while it does.
os._exit(0)
