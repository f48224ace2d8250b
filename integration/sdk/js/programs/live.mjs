// How soon output arrives: each line within 50 ms of its being printed, while the command goes on.
//
// Environment as for life.mjs; needs a deployment with the full envd protocol and a machine that is not busy.
// Usage: live.mjs

import { Sandbox } from 'e2b'
import { liveOutput } from './everything.mjs'
import { Report, equal } from './report.mjs'

const report = new Report()
let sandbox
await report.check('create', async () => {
  sandbox = await Sandbox.create(process.env.E2B_TEMPLATE_ID, { timeoutMs: 300_000, requestTimeoutMs: 180_000 })
  // The first command of a sandbox also pays for its connection and its container's first fork.
  await sandbox.commands.run('true')
})
if (!sandbox) await report.end()
await liveOutput(report, sandbox, 50)
await report.check('kill', async () => equal(await sandbox.kill(), true, 'kill'))
await report.end()
