// The whole life of a sandbox, through an unmodified E2B SDK, in any version from 2.34 to 2.51.
//
// Reads E2B_API_URL, E2B_SANDBOX_URL, E2B_API_KEY (all three by the SDK itself), E2B_TEMPLATE_ID, and for HTTPS with a
// private CA NODE_EXTRA_CA_CERTS (by Node itself, at start). Must lie below a directory with e2b in its node_modules.
//
// Usage: life.mjs [--profile rock|envd] [--quick]
//
// --profile says what the deployment can do. rock: command output comes at the end; no stdin, PTY, process list,
// rename, remove, watch. envd: everything. --quick shrinks the large transfers (64 MiB file to 4, 20 MiB output to 2).

import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { parseArgs } from 'node:util'
import {
  CommandExitError,
  FileNotFoundError,
  FileType,
  InvalidArgumentError,
  Sandbox,
  SandboxNotFoundError,
  TimeoutError,
} from 'e2b'
import { everythingEnvdCan } from './everything.mjs'
import { Report, equal, holds, raising } from './report.mjs'

const { values: options } = parseArgs({
  options: { profile: { type: 'string', default: 'rock' }, quick: { type: 'boolean', default: false } },
})
if (!['rock', 'envd'].includes(options.profile)) throw new Error(`unknown profile ${options.profile}`)

const MIB = 1024 * 1024
const AWKWARD_METADATA = {
  space: 'two words',
  ampersand: 'a&b',
  percent: '100%25',
  equals: 'k=v=w',
  'non-ascii': 'żółw 東京',
  'a key': 'with a space',
}
const AWKWARD_NAMES = ['plain.txt', 'two words.txt', 'a+b.txt', '100%25 %41.txt', 'żółw-東京.txt']

const report = new Report()
const life = randomUUID().replaceAll('-', '')
const home = `/home/user/life-${life}`

async function listed(metadata) {
  const paginator = Sandbox.list({ query: { metadata } })
  const found = []
  while (paginator.hasNext) found.push(...(await paginator.nextItems()).map((item) => item.sandboxId))
  return found
}

async function inspect(sandbox) {
  await report.check('get_info', async () => {
    const info = await sandbox.getInfo()
    equal([info.sandboxId, info.state], [sandbox.sandboxId, 'running'], '[sandboxId, state]')
    for (const [key, value] of Object.entries({ life, ...AWKWARD_METADATA })) {
      equal(info.metadata[key], value, `metadata[${key}]`)
    }
    holds(info.startedAt < info.endAt, 'endAt is not after startedAt')
  })
  await report.check('get_info_static', async () => {
    equal((await Sandbox.getInfo(sandbox.sandboxId)).sandboxId, sandbox.sandboxId, 'sandboxId')
  })
  await report.check('is_running', async () => equal(await sandbox.isRunning(), true, 'isRunning'))
  await report.check('list_by_metadata', async () => {
    for (const [key, value] of Object.entries(AWKWARD_METADATA)) {
      holds((await listed({ life, [key]: value })).includes(sandbox.sandboxId), `not listed by ${key}=${value}`)
    }
    equal(await listed({ life, ...AWKWARD_METADATA }), [sandbox.sandboxId], 'listed by all pairs')
  })
  await report.check('list_no_match', async () => equal(await listed({ life, space: 'other words' }), [], 'listed'))
}

async function commands(sandbox) {
  const run = (cmd, opts) => sandbox.commands.run(cmd, opts)
  const told = ({ stdout, stderr, exitCode }) => [stdout, stderr, exitCode]

  await report.check('run', async () => {
    equal(told(await run('echo out; echo err >&2')), ['out\n', 'err\n', 0], 'result')
  })
  await report.check('run_non_zero', async () => {
    const error = await raising(CommandExitError, () => run('echo partial; echo broken >&2; exit 7'))
    equal(told(error), ['partial\n', 'broken\n', 7], 'error')
  })
  await report.check('run_non_ascii', async () => {
    equal((await run("printf '%s' 'żółw 東京 🐢'")).stdout, 'żółw 東京 🐢', 'stdout')
  })
  await report.check('run_envs', async () => {
    const result = await run('printf "%s|%s|%s" "$FROM_CREATE" "$OVERRIDDEN" "$ONLY_HERE"', {
      envs: { OVERRIDDEN: 'inner', ONLY_HERE: 'a=b c' },
    })
    equal(result.stdout, 'outer value|inner|a=b c', 'stdout')
  })
  await report.check('run_cwd', async () => {
    await sandbox.files.write(`${home}/cwd/marker`, 'found by relative name')
    equal((await run('cat marker', { cwd: `${home}/cwd` })).stdout, 'found by relative name', 'stdout')
  })
  await report.check('run_cwd_missing', async () => {
    await raising(InvalidArgumentError, () => run('pwd', { cwd: `${home}/absent` }))
  })
  await report.check('run_timeout', async (remarks) => {
    const started = performance.now()
    await raising(TimeoutError, () => run('sleep 30', { timeoutMs: 3000 }))
    const took = (performance.now() - started) / 1000
    remarks.push(`${took.toFixed(1)} s`)
    holds(took >= 2.5 && took <= 10, `a 3 s timeout came after ${took.toFixed(1)} s`)
  })
  await report.check('run_background', async () => {
    const handle = await run('sleep 0.5; echo later', { background: true })
    holds(handle.pid > 0, `pid is ${handle.pid}`)
    equal(told(await handle.wait()), ['later\n', '', 0], 'result')
  })
  await report.check('run_background_non_zero', async () => {
    const handle = await run('echo last words; exit 3', { background: true })
    equal(told(await raising(CommandExitError, () => handle.wait())), ['last words\n', '', 3], 'error')
  })
  await report.check('run_disconnect', async () => {
    const handle = await run('sleep 2', { background: true })
    await handle.disconnect()
    equal((await run('echo still here')).stdout, 'still here\n', 'stdout of the next command')
  })
  const size = (options.quick ? 2 : 20) * MIB
  await report.check('run_large_output', async (remarks) => {
    const line = '0123456789abcdef'.repeat(4) + '\n'
    const pieces = []
    const result = await run(`yes ${line.trim()} | head -c ${size}`, {
      onStdout: (piece) => void pieces.push(piece),
      timeoutMs: 60_000,
    })
    const want = line.repeat(Math.floor(size / line.length) + 1).slice(0, size)
    sameText(result.stdout, want, 'stdout')
    sameText(pieces.join(''), want, 'text given to onStdout')
    remarks.push(`${size} bytes in ${pieces.length} pieces`)
  })
}

async function files(sandbox) {
  const { files } = sandbox
  const directory = `${home}/files`

  await report.check('make_dir_twice', async () => {
    equal(await files.makeDir(`${directory}/deep/er`), true, 'first makeDir')
    equal(await files.makeDir(`${directory}/deep/er`), false, 'second makeDir')
  })
  for (const name of AWKWARD_NAMES) {
    await report.check(`files_name:${name}`, async () => {
      const path = `${directory}/${name}`
      const written = await files.write(path, `text of ${name}\n`)
      equal([written.name, written.path], [name, path], 'written [name, path]')
      equal(await files.read(path), `text of ${name}\n`, 'text')
      equal(await files.exists(path), true, 'exists')
      const info = await files.getInfo(path)
      equal([info.name, info.path], [name, path], 'info [name, path]')
    })
  }
  await report.check('files_list', async () => {
    const entries = new Map((await files.list(directory)).map((entry) => [entry.name, entry]))
    equal([...entries.keys()].sort(), [...AWKWARD_NAMES, 'deep'].sort(), 'names')
    equal(entries.get('deep').type, FileType.DIR, 'type of deep')
    equal(entries.get('plain.txt').type, FileType.FILE, 'type of plain.txt')
  })
  await report.check('files_get_info', async () => {
    const info = await files.getInfo(`${directory}/plain.txt`)
    equal([info.type, info.size], [FileType.FILE, 'text of plain.txt\n'.length], '[type, size]')
  })
  await report.check('files_seen_by_command', async () => {
    const result = await sandbox.commands.run('cat "two words.txt" "a+b.txt"', { cwd: directory })
    equal(result.stdout, 'text of two words.txt\ntext of a+b.txt\n', 'stdout')
  })
  await report.check('files_overwrite', async () => {
    await files.write(`${directory}/plain.txt`, 'short')
    equal(await files.read(`${directory}/plain.txt`), 'short', 'text')
  })
  await report.check('files_empty', async () => {
    for (const content of ['', new ArrayBuffer(0)]) {
      await files.write(`${directory}/empty`, content)
      equal(await files.read(`${directory}/empty`), '', 'text')
      equal((await files.read(`${directory}/empty`, { format: 'bytes' })).length, 0, 'length of bytes')
    }
    equal((await files.getInfo(`${directory}/empty`)).size, 0, 'size')
  })
  const small = Buffer.from(Array.from({ length: 4096 }, (_, i) => i % 256))
  await report.check('files_bytes', async () => {
    await files.write(`${directory}/bytes`, asArrayBuffer(small))
    sameBytes(await files.read(`${directory}/bytes`, { format: 'bytes' }), small)
  })
  await report.check('files_stream', async () => {
    const chunks = []
    for await (const chunk of await files.read(`${directory}/bytes`, { format: 'stream' })) chunks.push(chunk)
    sameBytes(Buffer.concat(chunks), small)
  })
  const size = (options.quick ? 4 : 64) * MIB
  await report.check('files_large', async (remarks) => {
    const content = randomBytes(size)
    await files.write(`${directory}/large`, asArrayBuffer(content), { requestTimeoutMs: 300_000 })
    sameBytes(await files.read(`${directory}/large`, { format: 'bytes', requestTimeoutMs: 300_000 }), content)
    remarks.push(`${size} bytes`)
  })
  await report.check('write_files', async () => {
    const batch = AWKWARD_NAMES.map((name) => ({ path: `${directory}/batch/${name}`, data: `batch ${name}` }))
    batch.push({ path: `${directory}/batch/binary`, data: asArrayBuffer(Buffer.from([0, 255])) })
    const written = await files.writeFiles(batch)
    equal(written.map((entry) => entry.path), batch.map((entry) => entry.path), 'paths')
    for (const name of AWKWARD_NAMES) equal(await files.read(`${directory}/batch/${name}`), `batch ${name}`, name)
    sameBytes(await files.read(`${directory}/batch/binary`, { format: 'bytes' }), Buffer.from([0, 255]))
  })
  await report.check('files_missing', async () => {
    equal(await files.exists(`${directory}/absent`), false, 'exists')
    await raising(FileNotFoundError, () => files.read(`${directory}/absent`))
    await raising(FileNotFoundError, () => files.getInfo(`${directory}/absent`))
  })
  await report.check('files_read_directory', async () => {
    await raising(InvalidArgumentError, () => files.read(directory))
  })
}

async function lifetime(sandbox) {
  await report.check('set_timeout', async () => {
    const before = (await sandbox.getInfo()).endAt
    equal(await sandbox.setTimeout(1_200_000), undefined, 'setTimeout')
    const after = (await sandbox.getInfo()).endAt
    holds(after - before > 600_000, `endAt went from ${before.toISOString()} to ${after.toISOString()}`)
  })
}

async function death(sandbox) {
  await report.check('kill_twice', async () => {
    equal(await sandbox.kill(), true, 'first kill')
    equal(await sandbox.kill(), false, 'second kill')
  })
  await report.check('is_running_after_kill', async () => equal(await sandbox.isRunning(), false, 'isRunning'))
  await report.check('get_info_after_kill', async () => {
    await raising(SandboxNotFoundError, () => Sandbox.getInfo(sandbox.sandboxId))
  })
}

// The SDK takes an ArrayBuffer; a Buffer may be a window into a larger, shared one.
function asArrayBuffer(buffer) {
  return buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength)
}

function sameBytes(got, want) {
  equal(got.length, want.length, 'length')
  const digest = (bytes) => createHash('sha256').update(bytes).digest('hex')
  equal(digest(got), digest(want), 'SHA-256')
}

function sameText(got, want, what) {
  equal(got.length, want.length, `length of ${what}`)
  holds(got === want, `${what} has the right length and wrong bytes`)
}

let sandbox
await report.check('create', async (remarks) => {
  sandbox = await Sandbox.create(process.env.E2B_TEMPLATE_ID, {
    timeoutMs: 300_000,
    metadata: { life, ...AWKWARD_METADATA },
    envs: { FROM_CREATE: 'outer value', OVERRIDDEN: 'outer' },
    requestTimeoutMs: 180_000,
  })
  holds(sandbox.sandboxId, 'the sandbox has no id')
  remarks.push(sandbox.sandboxId)
})
if (sandbox) {
  await inspect(sandbox)
  await commands(sandbox)
  await files(sandbox)
  if (options.profile === 'envd') await everythingEnvdCan(report, sandbox, home)
  await lifetime(sandbox)
  await death(sandbox)
}
await report.end()
