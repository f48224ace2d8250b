// How capability.mjs says what a call did. The lines are those of the Python programs, see py/told.py.

import * as e2b from 'e2b'
import { createInterface } from 'node:readline'

export class Absent extends Error {}
export class Unreached extends Error {}
export class Elsewhere extends Error {}
export class Wrong extends Error {}

// A plain HTTP request, made with what the SDK returned, was answered with an error status.
export class Refused extends Error {
  constructor(status, text) {
    super(text)
    this.status = status
  }
}

// The SDK's own classes. Some builds of it hold a class twice, so they are known by their names.
const own = new Set(Object.keys(e2b).filter((name) => name.endsWith('Error')))

// Runs body, an async function, prints what became of it and resolves to its result, undefined when it failed.
export async function tell(call, body) {
  const line = { call }
  let result
  try {
    result = await body()
    line.outcome = 'works'
  } catch (error) {
    const name = error?.constructor?.name
    const text = String(error?.message ?? error)
    if ([Absent, Unreached, Elsewhere].some((kind) => error instanceof kind)) line.outcome = name.toLowerCase()
    else if (error instanceof Wrong) Object.assign(line, { outcome: 'wrong', text })
    else if (error instanceof Refused) Object.assign(line, { outcome: 'refused', class: `HTTP ${error.status}`, text })
    else Object.assign(line, { outcome: 'raised', class: name, text, typed: own.has(name) })
  }
  await say(line)
  return result
}

export const say = (line) => new Promise((written) => process.stdout.write(JSON.stringify(line) + '\n', written))

const heard = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

// Waits until the test has read what was said.
export async function hear() {
  if ((await heard.next()).done) process.exit(2)
}

export function equal(got, want, what = 'value') {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)]
  if (a !== b) throw new Wrong(`${what} is ${a}, want ${b}`)
}

export function holds(condition, otherwise) {
  if (!condition) throw new Wrong(otherwise)
}
