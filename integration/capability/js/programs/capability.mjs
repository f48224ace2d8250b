// Every call of the E2B SDK once, and what became of it; py/told.py has the form of the lines, py/capability.py the same calls.
//
// Reads E2B_API_KEY and E2B_DOMAIN, or E2B_API_URL and E2B_SANDBOX_URL (all by the SDK itself), E2B_TEMPLATE_ID and
// NODE_EXTRA_CA_CERTS. After the first sandbox was made it prints {"sandbox": id, "host": that of port 8000} and waits for a line,
// so that the test can start servers in the sandbox. {"stop": id} asks for the end of its container, and it waits again. With the id of a sandbox as its argument it makes one call, connect_by_id. Must lie below a directory with e2b in its node_modules.

import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'e2b'
import { elsewhere } from './elsewhere.mjs'
import { Elsewhere, Refused, Unreached, equal, hear, holds, say, tell } from './told.mjs'

const template = process.env.E2B_TEMPLATE_ID
// Where the servers are that the test starts in the sandbox. The record maps port 8080 and none of the others.
const [MAPPED, SERVER, MCP, INTERPRETER] = [8080, 8000, 50005, 49999]

const runId = randomUUID().replaceAll('-', '')
const directory = `/home/user/${runId}`
const others = []
let main
let isPaused = false

// The sandbox of most calls.
function sandbox() {
  if (!main) throw new Unreached()
  return main
}

// A sandbox with these options, ended with the program.
async function made(options) {
  const other = await Sandbox.create(template, { requestTimeoutMs: 60_000, ...options })
  others.push(other)
  return other
}

const seconds = (later, sooner) => (later - sooner) / 1000

async function listed(options) {
  const paginator = Sandbox.list(options)
  const pages = []
  while (paginator.hasNext) pages.push((await paginator.nextItems()).map((item) => item.sandboxId))
  return pages
}

const create = () =>
  Sandbox.create(template, {
    timeoutMs: 600_000,
    metadata: { run: runId, 'a key': 'b&c=d' },
    envs: { GIVEN: 'at create' },
    requestTimeoutMs: 60_000,
  })

const lifecycle = {
  async create_plain() {
    const info = await (await made({})).getInfo()
    const lives = seconds(info.endAt, info.startedAt)
    holds(lives >= 250 && lives <= 400, `it lives for ${lives} s`)
  },
  async create_auto_pause() {
    await made({ lifecycle: { onTimeout: 'pause' } })
  },
  async create_no_internet() {
    await made({ allowInternetAccess: false })
    holds(false, 'it was made as if nothing had been asked for: ROCK has no egress policy')
  },
  async create_network() {
    await made({ network: { denyOut: ['8.8.8.8/32'] } })
  },
  async create_private() {
    const other = await made({ network: { allowPublicTraffic: false } })
    const token = other.trafficAccessToken
    holds(token, 'there is no traffic token')
    if (!('E2B_DOMAIN' in process.env)) return
    const status = async (headers) => (await fetch(`https://${other.getHost(SERVER)}/`, { headers })).status
    equal(await status({}), 403, 'status without the token')
    equal(await status({ 'e2b-traffic-access-token': token }), 502, 'status with it, where nothing listens')
  },
  async create_volume() {
    await made({ volumeMounts: { '/mnt/data': 'some-volume' } })
  },
  async get_info() {
    const info = await sandbox().getInfo()
    equal([info.sandboxId, info.state], [main.sandboxId, 'running'], '[id, state]')
    equal(info.metadata['a key'], 'b&c=d', 'metadata')
    equal((await Sandbox.getInfo(main.sandboxId)).sandboxId, main.sandboxId, 'id by id')
  },
  async is_running() {
    equal(await sandbox().isRunning(), true, 'isRunning')
  },
  async set_timeout() {
    const before = (await sandbox().getInfo()).endAt
    await main.setTimeout(1_800_000)
    const later = seconds((await main.getInfo()).endAt, before)
    holds(later > 600, `endAt moved by ${later} s`)
  },
  async list_metadata() {
    equal(await listed({ query: { metadata: { run: runId, 'a key': 'b&c=d' } } }), [[sandbox().sandboxId]], 'pages')
  },
  async list_all() {
    const pages = await listed()
    holds(pages.flat().includes(sandbox().sandboxId), `not among ${JSON.stringify(pages)}`)
  },
  async list_state() {
    equal(await listed({ query: { metadata: { run: runId }, state: ['running', 'paused'] } }), [[sandbox().sandboxId]], 'pages')
  },
  async list_paged() {
    const mine = []
    for (let n = 0; n < 3; n++) mine.push((await made({ metadata: { page: runId }, timeoutMs: 300_000 })).sandboxId)
    const pages = await listed({ query: { metadata: { page: runId } }, limit: 1 })
    equal(pages.filter((page) => page.length).map((page) => page.length), [1, 1, 1], 'items a page')
    equal(pages.flat().sort(), mine.sort(), 'ids')
  },
  async list_paused() {
    await listed({ query: { state: ['paused'] } })
  },
  async connect() {
    const before = (await sandbox().getInfo()).endAt
    await main.connect({ timeoutMs: 60_000 })
    const moved = seconds((await main.getInfo()).endAt, before)
    holds(Math.abs(moved) < 61, `a shorter timeout moved endAt by ${moved} s`)
  },
}

// Another process does it, which knows the id and no more.
async function connectById(id) {
  const other = await Sandbox.connect(id)
  equal((await other.commands.run('echo again')).stdout, 'again\n', 'stdout')
}

const commands = {
  async run() {
    const got = await sandbox().commands.run('echo "$GIVEN $HERE"; echo err >&2', { envs: { HERE: 'and here' }, cwd: '/tmp' })
    equal([got.stdout, got.stderr, got.exitCode], ['at create and here\n', 'err\n', 0], 'result')
  },
  async run_background() {
    const handle = await sandbox().commands.run('sleep 0.1; echo later', { background: true })
    equal((await handle.wait()).stdout, 'later\n', 'stdout')
  },
  async disconnect() {
    const handle = await sandbox().commands.run('sleep 1', { background: true })
    await handle.disconnect()
    equal((await main.commands.run('echo on')).stdout, 'on\n', 'stdout of the next command')
  },
  async run_as_user() {
    equal((await sandbox().commands.run('echo as', { user: 'root' })).stdout, 'as\n', 'stdout')
  },
  async run_unlimited() {
    equal((await sandbox().commands.run('echo long', { timeoutMs: 0 })).stdout, 'long\n', 'stdout')
  },
  async commands_list() {
    await sandbox().commands.list()
  },
  async commands_kill() {
    const handle = await sandbox().commands.run('sleep 3', { background: true })
    handle.wait().catch(() => {}) // the end by the kill is not what is asked here
    try {
      equal(await main.commands.kill(handle.pid), true, 'kill')
    } finally {
      await handle.disconnect()
    }
  },
  async commands_connect() {
    const handle = await sandbox().commands.run('sleep 0.3; echo found', { background: true })
    await handle.disconnect()
    const again = await main.commands.connect(handle.pid, { timeoutMs: 10_000 })
    equal((await again.wait()).stdout, 'found\n', 'stdout')
  },
  async send_stdin() {
    const handle = await sandbox().commands.run('read -r line; echo got $line', { background: true, stdin: true, timeoutMs: 10_000 })
    await main.commands.sendStdin(handle.pid, 'this\n')
    equal((await handle.wait()).stdout, 'got this\n', 'stdout')
  },
  async pty() {
    const handle = await sandbox().pty.create({ rows: 24, cols: 80, onData: () => {}, timeoutMs: 10_000 })
    await main.pty.sendInput(handle.pid, new TextEncoder().encode('exit\n'))
    await handle.wait()
  },
}

const files = {
  async make_dir() {
    equal(await sandbox().files.makeDir(`${directory}/deep/er`), true, 'first')
    equal(await main.files.makeDir(`${directory}/deep/er`), false, 'second')
  },
  async write() {
    equal((await sandbox().files.write(`${directory}/a + b`, 'żółw')).path, `${directory}/a + b`, 'path')
  },
  async write_files() {
    const entries = [0, 1, 2].map((n) => ({ path: `${directory}/${n}`, data: `file ${n}` }))
    equal((await sandbox().files.write(entries)).length, 3, 'written')
  },
  async read_text() {
    equal(await sandbox().files.read(`${directory}/a + b`), 'żółw', 'text')
  },
  async read_bytes() {
    equal(Buffer.from(await sandbox().files.read(`${directory}/1`, { format: 'bytes' })).toString(), 'file 1', 'bytes')
  },
  async read_stream() {
    const chunks = []
    for await (const chunk of await sandbox().files.read(`${directory}/2`, { format: 'stream' })) chunks.push(chunk)
    equal(Buffer.concat(chunks).toString(), 'file 2', 'bytes')
  },
  async files_list() {
    const names = (await sandbox().files.list(directory)).map((entry) => entry.name)
    holds(['a + b', '0', '1', '2', 'deep'].every((name) => names.includes(name)), `names are ${names}`)
  },
  async files_get_info() {
    const info = await sandbox().files.getInfo(`${directory}/1`)
    equal([info.name, info.size], ['1', 6], '[name, size]')
  },
  async exists() {
    equal(await sandbox().files.exists(`${directory}/1`), true, 'exists')
    equal(await main.files.exists(`${directory}/absent`), false, 'absent exists')
  },
  async rename() {
    await sandbox().files.rename(`${directory}/0`, `${directory}/zero`)
    equal(await main.files.read(`${directory}/zero`), 'file 0', 'text')
  },
  async remove() {
    await sandbox().files.remove(`${directory}/2`)
    equal(await main.files.exists(`${directory}/2`), false, 'exists')
  },
  async watch_dir() {
    const events = []
    const handle = await sandbox().files.watchDir(directory, (event) => void events.push(event.name))
    await main.files.write(`${directory}/watched`, 'x')
    for (const deadline = Date.now() + 10_000; !events.includes('watched'); await sleep(20)) {
      holds(Date.now() < deadline, `no event, only ${events}`)
    }
    await handle.stop()
  },
  async write_metadata() {
    await sandbox().files.write(`${directory}/noted`, 'x', { metadata: { color: 'red' } })
  },
  async write_gzip() {
    await sandbox().files.write(`${directory}/zipped`, 'text '.repeat(100), { gzip: true })
    equal(await main.files.read(`${directory}/zipped`, { gzip: true }), 'text '.repeat(100), 'text')
  },
}

// git.*, which runs git by commands.run().
async function git() {
  const { git } = sandbox()
  const path = `${directory}/repo`
  await git.init(path, { initialBranch: 'main' })
  await git.configureUser('Some Body', 'some@body.test', { scope: 'local', path })
  await main.files.write(`${path}/file`, 'x')
  await git.add(path)
  await git.commit(path, 'First')
  const status = await git.status(path)
  equal([status.currentBranch, status.isClean], ['main', true], '[branch, clean]')
  await git.clone(path, { path: `${directory}/clone` })
  equal((await git.branches(`${directory}/clone`)).currentBranch, 'main', 'branch of the clone')
}

// A request without any SDK.
async function fetched(url, options) {
  const answer = await fetch(url, { signal: AbortSignal.timeout(20_000), ...options })
  const text = await answer.text()
  if (!answer.ok) throw new Refused(answer.status, text)
  return text
}

function url(port, path) {
  const host = sandbox().getHost(port)
  if (host.endsWith('.e2b.app')) throw new Elsewhere()
  return ('E2B_DOMAIN' in process.env ? 'https://' : 'http://') + host + path
}

// The signature has both characters of base64 that mean something in a URL.
async function download(expires) {
  for (let number = 0; ; number++) {
    const path = `${directory}/ż + %2B ${number}`
    const url = await sandbox().downloadUrl(path, { useSignatureExpiration: expires })
    const signature = /signature=([^&]*)/.exec(url)?.[1] ?? '%2B%2F'
    if (!signature.includes('%2B') || !signature.includes('%2F')) continue
    await main.files.write(path, 'żółw')
    return equal(await fetched(url), 'żółw', 'body')
  }
}

async function upload(expires) {
  const path = `${directory}/ż by url + ${expires}`
  const form = new FormData()
  form.append('file', new Blob(['by form']), 'x')
  await fetched(await sandbox().uploadUrl(path, { useSignatureExpiration: expires }), { method: 'POST', body: form })
  equal(await main.files.read(path), 'by form', 'text')
}

const hosts = {
  async get_host_http() {
    equal(await fetched(url(MAPPED, '/hello?a=b')), 'hello from inside', 'body')
  },
  async get_host_tunnel() {
    equal(await fetched(url(SERVER, '/hello?a=b')), 'hello from inside', 'body')
  },
  // The second event is sent when the first was read: an answer that is held back never ends.
  async get_host_sse() {
    const answer = await fetch(url(SERVER, `/events?key=${runId}`), { signal: AbortSignal.timeout(20_000) })
    equal(answer.headers.get('Content-Type'), 'text/event-stream', 'Content-Type')
    const seen = []
    for await (const piece of answer.body) {
      if (seen.push(Buffer.from(piece).toString()) === 1) await fetched(url(SERVER, `/seen?key=${runId}`))
    }
    equal([seen[0], seen.join('')], ['data: first\n\n', 'data: first\n\ndata: second\n\n'], '[first event, all]')
  },
  async get_mcp_url() {
    equal(await fetched(url(MCP, '/mcp')), 'hello from inside', 'body')
    holds(main.getMcpUrl().endsWith('/mcp'), main.getMcpUrl())
  },
  async code_interpreter_host() {
    equal(await fetched(url(INTERPRETER, '/execute'), { method: 'POST', body: '{}' }), 'hello from inside', 'body')
  },
  download_url: () => download(),
  download_url_expiring: () => download(60),
  upload_url: () => upload(),
  upload_url_expiring: () => upload(60),
}

// They come after everything, since they end the processes.
const pausing = {
  async pause() {
    await sandbox().files.write(`${directory}/kept`, 'kept')
    equal(await main.pause(), true, 'pause')
    equal((await main.getInfo()).state, 'paused', 'state')
    equal(await main.isRunning(), false, 'isRunning')
    isPaused = true
  },
  async resume() {
    if (!isPaused) {
      // Then ROCK itself has stopped it.
      await say({ stop: sandbox().sandboxId })
      await hear()
    }
    const resumed = await Sandbox.connect(sandbox().sandboxId, { timeoutMs: 600_000 })
    equal(await resumed.isRunning(), true, 'isRunning')
    equal(await resumed.files.read(`${directory}/kept`), 'kept', 'file')
  },
}

async function kill() {
  equal(await sandbox().kill(), true, 'kill')
  equal(await Sandbox.kill(main.sandboxId), false, 'second kill')
}

const connectsTo = process.argv[2]
if (connectsTo) {
  await tell('connect_by_id', () => connectById(connectsTo))
  process.exit(0)
}
main = await tell('create', create)
if (main) {
  await say({ sandbox: main.sandboxId, host: main.getHost(SERVER) })
  await hear()
}
if (main) spawnSync(process.execPath, [process.argv[1], main.sandboxId], { stdio: ['ignore', 'inherit', 'inherit'] })
else await tell('connect_by_id', async () => sandbox())
for (const group of [lifecycle, commands, files, { git }, hosts, elsewhere(sandbox, others), pausing, { kill }]) {
  for (const [name, body] of Object.entries(group)) await tell(name, body)
}
for (const other of others) await other.kill()
await say({ call: 'end', outcome: 'works' })
process.exit(0)
