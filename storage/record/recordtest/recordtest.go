// Package recordtest builds batches and old message sets for tests, at random from the source
// that it is handed. It never decides whether they are right: that is for the tests.
package recordtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/pierrec/lz4/v4"

	"seedlog/storage/record"
)

// NowMs is the time around which random timestamps lie.
const NowMs int64 = 1_700_000_000_000

// Records returns n random records: keys and values null, empty or not, some with headers.
// Offsets are 0.
func Records(r *rand.Rand, n int) []record.Record {
	list := make([]record.Record, n)
	for i := range list {
		list[i] = record.Record{Timestamp: NowMs + r.Int64N(10_000) - 5_000, Key: Bytes(r, 40), Value: Bytes(r, 400)}
		for range r.IntN(6) / 3 {
			list[i].Headers = append(list[i].Headers, record.RecordHeader{Key: fmt.Sprintf("h%d", r.IntN(100)), Value: Bytes(r, 20)})
		}
	}
	return list
}

// Bytes returns nil, nothing, or up to max random bytes that compress somewhat.
func Bytes(r *rand.Rand, max int) []byte {
	switch r.IntN(8) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	b := make([]byte, 1+r.IntN(max))
	for i := range b {
		b[i] = byte('a' + r.IntN(6))
	}
	return b
}

// Options returns random options for a batch such as a client sends: base offset 0, any codec,
// with or without a producer.
func Options(r *rand.Rand) record.Options {
	o := record.NewOptions(0)
	o.Codec = record.Codec(r.IntN(5))
	if r.IntN(2) == 0 {
		o.ProducerID, o.ProducerEpoch, o.BaseSequence = r.Int64N(1000), int16(r.IntN(10)), r.Int32N(1<<20)
		o.Transactional = r.IntN(2) == 0
	}
	return o
}

// Batch builds records into a batch and returns them with the offsets that they have in it.
func Batch(o record.Options, records []record.Record) ([]byte, []record.Record) {
	b, err := record.AppendBatch(nil, o, nil, records...)
	if err != nil {
		panic(fmt.Sprintf("recordtest: %v", err))
	}
	for i := range records {
		records[i].Offset = o.BaseOffset + int64(i)
	}
	return b, records
}

// Produced builds a random batch of 1 to max records that every topic accepts.
func Produced(r *rand.Rand, max int) ([]byte, []record.Record) {
	records := Records(r, 1+r.IntN(max))
	for i := range records {
		if records[i].Key == nil {
			records[i].Key = []byte("k")
		}
	}
	return Batch(Options(r), records)
}

// Log builds a partition's bytes: n batches at consecutive offsets from base, with the epoch.
func Log(r *rand.Rand, base int64, epoch int32, n int) []byte {
	var b []byte
	for range n {
		batch, records := Produced(r, 8)
		record.Stamp(batch, base, epoch)
		base += int64(len(records))
		b = append(b, batch...)
	}
	return b
}

// AppendMessage appends an uncompressed message of magic 0 or 1.
func AppendMessage(dst []byte, magic int8, rec record.Record) []byte {
	return appendMessage(dst, magic, rec.Offset, 0, rec.Timestamp, rec.Key, rec.Value)
}

// AppendWrapper appends a message of magic 0 or 1 that wraps records, compressed with gzip,
// snappy or lz4: in magic 1 with relative offsets, in magic 0 with absolute ones and, for lz4,
// the wrong header checksum of the clients of that time. appendTime says LogAppendTime.
func AppendWrapper(dst []byte, magic int8, codec record.Codec, appendTime bool, timestamp int64, records []record.Record) []byte {
	var set []byte
	for i, rec := range records {
		if magic == 1 {
			rec.Offset = int64(i)
		}
		set = AppendMessage(set, magic, rec)
	}
	attributes := byte(codec)
	if appendTime {
		attributes |= 8
	}
	value := Compress(codec, set)
	if magic == 0 && codec == record.Lz4 {
		value[6] ^= 0x5a
	}
	return appendMessage(dst, magic, records[len(records)-1].Offset, attributes, timestamp, nil, value)
}

// Compress compresses b without the help of package record.
func Compress(codec record.Codec, b []byte) []byte {
	var out bytes.Buffer
	switch codec {
	case record.Gzip:
		w := gzip.NewWriter(&out)
		mustWrite(w.Write(b))
		must(w.Close())
	case record.Snappy:
		return xerial.Encode(nil, b)
	case record.Lz4:
		w := lz4.NewWriter(&out)
		must(w.Apply(lz4.ConcurrencyOption(1), lz4.BlockSizeOption(lz4.Block64Kb)))
		mustWrite(w.Write(b))
		must(w.Close())
	default:
		panic(fmt.Sprintf("recordtest: no %v in a message set", codec))
	}
	return out.Bytes()
}

func appendMessage(dst []byte, magic int8, offset int64, attributes byte, timestamp int64, key, value []byte) []byte {
	be := binary.BigEndian
	body := []byte{byte(magic), attributes}
	if magic == 1 {
		body = be.AppendUint64(body, uint64(timestamp))
	}
	for _, b := range [][]byte{key, value} {
		if b == nil {
			body = be.AppendUint32(body, 1<<32-1)
			continue
		}
		body = append(be.AppendUint32(body, uint32(len(b))), b...)
	}
	dst = be.AppendUint64(dst, uint64(offset))
	dst = be.AppendUint32(dst, uint32(4+len(body)))
	dst = be.AppendUint32(dst, crc32.ChecksumIEEE(body))
	return append(dst, body...)
}

func mustWrite(_ int, err error) { must(err) }

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("recordtest: %v", err))
	}
}
