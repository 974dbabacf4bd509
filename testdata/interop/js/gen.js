// Makes and checks the records that every interop client writes; README.md has the formula.
'use strict'

const BASE_TIMESTAMP = 1700000000000

const table = Buffer.alloc(65536)
for (let i = 0, s = 1; i < table.length; i++) {
  s = (Math.imul(s, 1664525) + 1013904223) >>> 0
  table[i] = 97 + ((s >>> 24) % 26)
}

function mix(i, seed) {
  let x = (Math.imul(i, 2654435761) + seed) >>> 0
  x = (x ^ (x >>> 15)) >>> 0
  x = Math.imul(x, 0x2c1b3c6d) >>> 0
  x = (x ^ (x >>> 12)) >>> 0
  x = Math.imul(x, 0x297a2d39) >>> 0
  return (x ^ (x >>> 15)) >>> 0
}

// make returns record i; null is null.
function make(i, seed, profile) {
  const x = mix(i, seed)
  const kind = x % 100
  let value = null
  if (kind === 5 && profile !== 'kcat') value = Buffer.alloc(0)
  if (kind > 5) {
    const length = (x >>> 8) % (kind === 99 ? 20000 : kind >= 90 ? 2000 : 200)
    const start = x % 40000
    value = Buffer.concat([Buffer.from(`${i}:`), table.subarray(start, start + length)])
  }
  const key = i % 10 || kind <= 5 ? Buffer.from(`key-${i}`) : null
  if (profile === 'kcat') return { key, value, headers: { src: 'kcat' } }
  const headers = {}
  if (i % 3 > 0) headers.i = `${i}`
  if (i % 3 === 2) headers.empty = ''
  return { key, value, headers, timestamp: `${BASE_TIMESTAMP + i}` }
}

const same = (a, b) => (a === null ? b === null : b !== null && a.equals(b))

// Checker compares what a reader receives with what the topic must hold.
class Checker {
  constructor(n, seed, profile) {
    Object.assign(this, { n, seed, profile, count: 0, seen: new Uint8Array(n), last: new Map() })
  }

  done() {
    return this.count === this.n
  }

  add(partition, message) {
    const i = index(message)
    const at = `index ${i} at ${partition}/${message.offset}`
    if (!(i >= 0 && i < this.n)) throw new Error(at)
    if (this.seen[i]) throw new Error(`${at} came twice`)
    this.seen[i] = 1
    const last = this.last.get(partition)
    const offset = Number(message.offset)
    if (last && (i < last.i || offset !== last.offset + 1)) throw new Error(`${at} after index ${last.i} at ${last.offset}`)
    this.last.set(partition, { i, offset })
    this.count++
    this.compare(i, at, message)
  }

  compare(i, at, got) {
    const want = make(i, this.seed, this.profile)
    if (!same(want.key, got.key)) throw new Error(`${at}: key ${got.key}`)
    if (!same(want.value, got.value)) throw new Error(`${at}: value of ${got.value && got.value.length} bytes, want ${want.value && want.value.length}`)
    const headers = Object.entries(got.headers || {}).map(([k, v]) => [k, v.toString()])
    if (JSON.stringify(headers) !== JSON.stringify(Object.entries(want.headers))) throw new Error(`${at}: headers ${JSON.stringify(headers)}`)
    if (want.timestamp && want.timestamp !== got.timestamp) throw new Error(`${at}: timestamp ${got.timestamp}`)
  }
}

function index(message) {
  const text = message.key === null ? message.value : message.key.subarray(4)
  return parseInt(text.toString('latin1', 0, 12), 10)
}

module.exports = { make, Checker }
