// The interop client on kafkajs: client.js write BROKER TOPIC N SEED CODECS | read BROKER TOPIC N SEED PROFILE GROUP
'use strict'

const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const fzstd = require('fzstd')
const zstd = require('@bokuweb/zstd-wasm')
const { make, Checker } = require('./gen')

const LIMIT_MS = 150000
const SEND_RECORDS = 2000

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(fzstd.decompress(buffer)),
})
const types = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }

async function write(kafka, topic, n, seed, codecs) {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (let k = 0; k < codecs.length; k++) {
    const compression = CompressionTypes[types[codecs[k]]]
    const end = Math.floor(((k + 1) * n) / codecs.length)
    for (let i = Math.floor((k * n) / codecs.length); i < end; i += SEND_RECORDS) {
      const messages = []
      for (let j = i; j < Math.min(i + SEND_RECORDS, end); j++) messages.push(make(j, seed, 'full'))
      await producer.send({ topic, compression, acks: -1, messages })
    }
  }
  await producer.disconnect()
}

async function read(kafka, topic, n, seed, profile, groupId) {
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const check = new Checker(n, seed, profile)
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`${check.count} of ${n} records in time`)), LIMIT_MS).unref()
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
        try {
          for (const message of batch.messages) {
            check.add(batch.partition, message)
            resolveOffset(message.offset)
          }
        } catch (err) {
          reject(err)
        }
        await heartbeat()
        if (check.done()) resolve()
      },
    }).catch(reject)
  })
  const offsets = [...check.last].map(([partition, { offset }]) => ({ topic, partition, offset: `${offset + 1}` }))
  await consumer.commitOffsets(offsets)
  await consumer.disconnect()
}

async function main() {
  const [verb, broker, topic, n, seed, ...rest] = process.argv.slice(2)
  await zstd.init()
  const kafka = new Kafka({ clientId: 'interop', brokers: [broker], logLevel: logLevel.WARN })
  if (verb === 'write') await write(kafka, topic, Number(n), Number(seed), rest[0].split(','))
  else await read(kafka, topic, Number(n), Number(seed), ...rest)
  console.log(JSON.stringify({ version: require('kafkajs/package.json').version, records: Number(n) }))
}

main().then(
  () => process.exit(0),
  (err) => {
    console.error(err)
    process.exit(1)
  },
)
