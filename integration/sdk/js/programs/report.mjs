// How the programs in this folder say what they saw. The lines are the same as those of the Python programs:
// {"check": name, "ok": bool, "detail": text, "ms": whole milliseconds}, one a line, the last one named "end".
// A failed check does not end the program; the exit code is 1 if any check failed.

export class Report {
  failed = false

  // Runs body, an async function, and reports it under name. body gets a list for remarks.
  async check(name, body) {
    const remarks = []
    const started = performance.now()
    let ok = true
    try {
      await body(remarks)
    } catch (error) {
      ok = false
      const where = /(\w+\.mjs:\d+)/.exec(error?.stack ?? '')?.[1] ?? '?'
      remarks.push(`${error?.constructor?.name}: ${String(error?.message ?? error).slice(0, 600)} (${where})`)
    }
    await this.#line(name, ok, remarks, started)
  }

  // Prints the closing line and exits: 0 if every check held, else 1.
  async end() {
    await this.#line('end', !this.failed, [], performance.now())
    process.exit(this.failed ? 1 : 0)
  }

  async #line(check, ok, remarks, started) {
    this.failed ||= !ok
    const line = JSON.stringify({ check, ok, detail: remarks.join('; '), ms: Math.round(performance.now() - started) })
    await new Promise((written) => process.stdout.write(line + '\n', written))
  }
}

export function equal(got, want, what = 'value') {
  const a = JSON.stringify(got)
  const b = JSON.stringify(want)
  if (a !== b) throw new Error(`${what} is ${shortened(a)}, want ${shortened(b)}`)
}

export function holds(condition, otherwise) {
  if (!condition) throw new Error(otherwise)
}

// Expects action to reject with exactly this class, not a subclass; resolves to the error.
export async function raising(exactly, action) {
  let result
  try {
    result = await action()
  } catch (error) {
    if (error?.constructor !== exactly) {
      throw new Error(`raised ${error?.constructor?.name} (${String(error?.message).slice(0, 300)}), want ${exactly.name}`)
    }
    return error
  }
  throw new Error(`nothing raised but ${shortened(JSON.stringify(result))} returned, want ${exactly.name}`)
}

function shortened(text) {
  return text === undefined || text.length <= 200 ? text : `${text.slice(0, 120)}... (${text.length} characters)`
}
