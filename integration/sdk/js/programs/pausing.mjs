// What one process makes, another one uses, pauses, starts again and ends. See the Python program of this name.
//
// Environment as for life.mjs. Usage: pausing.mjs --step make|use --id ID

import { parseArgs } from 'node:util'
import { Sandbox, SandboxError, SandboxNotFoundError } from 'e2b'
import { Report, equal, holds, raising } from './report.mjs'

const { values: options } = parseArgs({ options: { step: { type: 'string' }, id: { type: 'string' } } })
const FILE = '/home/user/kept.txt'
const template = process.env.E2B_TEMPLATE_ID
const report = new Report()

// What cannot be kept, by the name of the field that the refusal must say.
const REFUSED = {
  allow_internet_access: { allowInternetAccess: false },
  'network.denyOut': { network: { denyOut: ['0.0.0.0/0'] } },
  'network.maskRequestHost': { network: { maskRequestHost: 'localhost:${PORT}' } },
  'autoResume.enabled': { lifecycle: { onTimeout: 'pause', autoResume: true } },
  mcp: { mcp: { browserbase: { apiKey: 'k', geminiApiKey: 'g', projectId: 'p' } } },
  volumeMounts: { volumeMounts: { '/mnt/data': 'data' } },
}

const pause = (id) => (Sandbox.pause ?? Sandbox.betaPause).call(Sandbox, id)

async function make() {
  await report.check('create_with_defaults', async () => {
    const sandbox = await Sandbox.create(template)
    equal((await sandbox.commands.run('echo made')).stdout, 'made\n', 'stdout')
    equal(await Sandbox.kill(sandbox.sandboxId), true, 'kill')
  })
  for (const [field, wishes] of Object.entries(REFUSED)) {
    await report.check(`refused:${field}`, async () => {
      const error = await raising(SandboxError, () => Sandbox.create(template, wishes))
      holds(error.message.includes(`400: ${field} is not offered by this deployment`), error.message)
    })
  }
  await report.check('create_private', async () => {
    const sandbox = await Sandbox.create(template, { network: { allowPublicTraffic: false } })
    holds(sandbox.trafficAccessToken?.startsWith('e2bt_'), `the traffic token is ${sandbox.trafficAccessToken}`)
    await sandbox.kill()
  })
  await report.check('create', async () => {
    const sandbox = await Sandbox.create(template, {
      timeoutMs: 600_000,
      metadata: { 'ap-sandbox-id': options.id },
      lifecycle: { onTimeout: 'pause' },
    })
    equal(sandbox.sandboxId, options.id, 'id')
    equal(sandbox.trafficAccessToken ?? null, null, 'traffic token')
    equal(sandbox.sandboxDomain, 'sandbox.example.com', 'domain')
    await sandbox.files.write(FILE, 'kept')
    equal((await sandbox.getInfo()).metadata, { 'ap-sandbox-id': options.id }, 'metadata')
  })
}

async function use() {
  let sandbox
  await report.check('connect', async () => {
    const before = await Sandbox.getInfo(options.id)
    sandbox = await Sandbox.connect(options.id, { timeoutMs: 60_000 })
    equal(await sandbox.files.read(FILE), 'kept', 'file')
    equal(sandbox.sandboxDomain, 'sandbox.example.com', 'domain')
    const after = await sandbox.getInfo()
    holds(after.endAt >= before.endAt, `connect took time away: ${before.endAt}, ${after.endAt}`)
  })
  await report.check('pause', async () => {
    equal(await pause(options.id), true, 'pause')
    equal(await pause(options.id), false, 'pause again')
    equal((await sandbox.getInfo()).state, 'paused', 'state')
    equal(await sandbox.isRunning(), false, 'isRunning')
    const error = await raising(SandboxError, () => sandbox.commands.run('echo asleep'))
    holds(error.message.includes('is paused'), error.message)
  })
  await report.check('resume', async () => {
    sandbox = await Sandbox.connect(options.id, { timeoutMs: 120_000 })
    equal(await sandbox.files.read(FILE), 'kept', 'file')
    equal((await sandbox.commands.run('echo awake')).stdout, 'awake\n', 'stdout')
    equal((await sandbox.getInfo()).state, 'running', 'state')
  })
  await report.check('kill', async () => {
    equal(await sandbox.kill(), true, 'kill')
    await raising(SandboxNotFoundError, () => Sandbox.connect(options.id))
    await raising(SandboxNotFoundError, () => pause(options.id))
  })
}

await (options.step === 'make' ? make() : use())
await report.end()
