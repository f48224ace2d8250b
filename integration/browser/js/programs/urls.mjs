// Makes a sandbox with a file in it and prints its URLs, waits for a line, prints what was uploaded, and ends the sandbox.

import { once } from 'node:events'
import { Sandbox } from 'e2b'

const [path, uploaded, uploadedInTime] = ['/home/user/a file + more', '/home/user/by page', '/home/user/by page in time']

const sandbox = await Sandbox.create(process.env.E2B_TEMPLATE_ID, { timeoutMs: 300_000, requestTimeoutMs: 60_000 })
await sandbox.files.write(path, 'żółw, 東京')
const inTime = { useSignatureExpiration: 120 }
console.log(
  JSON.stringify({
    sandbox: sandbox.sandboxId,
    host: sandbox.getHost(8000),
    token: sandbox.envdAccessToken,
    download: await sandbox.downloadUrl(path),
    downloadExpires: await sandbox.downloadUrl(path, inTime),
    downloadExpired: await sandbox.downloadUrl(path, { useSignatureExpiration: -120 }),
    upload: await sandbox.uploadUrl(uploaded),
    uploadExpires: await sandbox.uploadUrl(uploadedInTime, inTime),
  }),
)
await once(process.stdin, 'data')
const texts = [await sandbox.files.read(uploaded), await sandbox.files.read(uploadedInTime)]
console.log(`[${texts.map((text) => JSON.stringify(text)).join(', ')}]`)
await sandbox.kill()
process.exit(0)
