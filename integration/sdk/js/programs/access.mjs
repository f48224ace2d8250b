// What each call says to each credential. Input and output are those of the Python program of this name.
// Environment as for life.mjs. Usage: access.mjs

import { readFileSync } from 'node:fs'
import { Sandbox } from 'e2b'

delete process.env.E2B_API_KEY
const told = JSON.parse(readFileSync(0, 'utf8'))

async function say(line) {
  await new Promise((written) => process.stdout.write(JSON.stringify(line) + '\n', written))
}

async function cell(credential, name, call) {
  const line = { cell: `${credential.name}/${name}` }
  try {
    line.value = (await call()) ?? null
  } catch (error) {
    line.class = error?.constructor?.name
    line.text = String(error?.message)
  }
  await say(line)
}

async function control(credential) {
  const opts = { validateApiKey: false, ...(credential.key && { apiKey: credential.key }) }
  const described = async () => (await Sandbox.getInfo(told.mine, opts)).sandboxId
  const calls = {
    create: async () => {
      const sandbox = await Sandbox.create(told.template, { ...opts, timeoutMs: 300_000 })
      const { stdout } = await sandbox.commands.run('echo made')
      await Sandbox.kill(sandbox.sandboxId, opts)
      return stdout
    },
    list: async () => {
      const items = await Sandbox.list({ ...opts, query: { metadata: { marker: told.mine } } }).nextItems()
      return items.map((item) => item.sandboxId)
    },
    get_info: described,
    set_timeout: () => Sandbox.setTimeout(told.mine, 600_000, opts),
    connect: async () => {
      // With what connect answers, as another process would.
      const sandbox = await Sandbox.connect(told.mine, opts)
      return (await sandbox.commands.run('echo connected')).stdout
    },
    get_metrics: () => Sandbox.getMetrics(told.mine, opts),
    create_snapshot: () => Sandbox.createSnapshot(told.mine, opts),
    pause: () => (Sandbox.pause ?? Sandbox.betaPause).call(Sandbox, told.paused, opts),
    kill: () => Sandbox.kill(told.doomed, opts),
  }
  for (const [name, call] of Object.entries(calls)) await cell(credential, name, call)
  delete opts.validateApiKey
  await cell(credential, 'get_info_checked', described)
}

async function data(credential) {
  const headers = { 'E2b-Sandbox-Id': credential.target, 'E2b-Sandbox-Port': '49983' }
  const sandbox = new Sandbox({
    sandboxId: credential.target,
    envdVersion: '0.3.0',
    apiKey: 'e2b_00',
    ...(credential.token && { envdAccessToken: credential.token }),
  })
  const until = credential.name === 'expired' ? { useSignatureExpiration: -600 } : {}
  const fetched = async (method, url) => {
    const answer = await fetch(url, {
      method,
      headers: { ...headers, 'Content-Type': 'application/octet-stream' },
      ...(method === 'POST' && { body: 'signed' }),
    })
    return `${answer.status} ${await answer.text()}`
  }
  const calls = {
    run: async () => (await sandbox.commands.run('echo seen')).stdout,
    write: async () => (await sandbox.files.write('/home/user/a', 'written')).path,
    read: () => sandbox.files.read('/home/user/a'),
    list_dir: async () => (await sandbox.files.list('/home/user')).map((e) => e.name).filter((name) => name === 'a'),
    exists: () => sandbox.files.exists('/home/user/a'),
    list_processes: async () => {
      await sandbox.commands.list()
      return 'listed'
    },
    is_running: () => sandbox.isRunning(),
    signed_write: async () => fetched('POST', await sandbox.uploadUrl('/home/user/a', until)),
    signed_read: async () => fetched('GET', await sandbox.downloadUrl('/home/user/a', until)),
  }
  for (const [name, call] of Object.entries(calls)) await cell(credential, name, call)
}

for (const credential of told.credentials) {
  await control(credential)
  await data(credential)
}
await say({ cell: 'end' })
process.exit(0)
