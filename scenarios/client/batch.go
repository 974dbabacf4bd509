package client

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"hash/fnv"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"seedlog/checker/logfile"
)

// Codec is a record batch's compression.
type Codec int16

const (
	Uncompressed Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// Record is one record to send; nil Key and Value are null.
type Record struct {
	Timestamp  int64
	Key, Value []byte
	Headers    []logfile.Header
}

// Digest names a record's content: key, value and headers. The broker may change timestamps.
func Digest(key, value []byte, headers []logfile.Header) uint64 {
	h := fnv.New64a()
	var n [8]byte
	add := func(b []byte) {
		size := int64(len(b))
		if b == nil {
			size = -1
		}
		binary.BigEndian.PutUint64(n[:], uint64(size))
		h.Write(n[:])
		h.Write(b)
	}
	add(key)
	add(value)
	for _, x := range headers {
		add([]byte(x.Key))
		add(x.Value)
	}
	return h.Sum64()
}

// BatchSpec is what a batch says beside its records.
type BatchSpec struct {
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Codec         Codec
	Attributes    int16 // more bits
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode builds one batch of magic 2.
func Encode(s BatchSpec, records []Record) []byte {
	base, top := records[0].Timestamp, records[0].Timestamp
	for _, r := range records {
		top = max(top, r.Timestamp)
	}
	var body []byte
	for i, r := range records {
		body = appendRecord(body, int64(i), r.Timestamp-base, r)
	}
	body = compress(s.Codec, body)
	be := binary.BigEndian
	b := make([]byte, 61, 61+len(body))
	be.PutUint32(b[8:], uint32(49+len(body)))
	be.PutUint32(b[12:], ^uint32(0))
	b[16] = 2
	be.PutUint16(b[21:], uint16(int16(s.Codec)|s.Attributes))
	be.PutUint32(b[23:], uint32(len(records)-1))
	be.PutUint64(b[27:], uint64(base))
	be.PutUint64(b[35:], uint64(top))
	be.PutUint64(b[43:], uint64(s.ProducerID))
	be.PutUint16(b[51:], uint16(s.ProducerEpoch))
	be.PutUint32(b[53:], uint32(s.BaseSequence))
	be.PutUint32(b[57:], uint32(len(records)))
	b = append(b, body...)
	Seal(b)
	return b
}

// Seal writes the CRC of a batch that was changed.
func Seal(b []byte) {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
}

func appendRecord(to []byte, offsetDelta, timestampDelta int64, r Record) []byte {
	b := []byte{0}
	b = binary.AppendVarint(b, timestampDelta)
	b = binary.AppendVarint(b, offsetDelta)
	b = appendField(b, r.Key)
	b = appendField(b, r.Value)
	b = binary.AppendVarint(b, int64(len(r.Headers)))
	for _, h := range r.Headers {
		b = appendField(b, append([]byte{}, h.Key...))
		b = appendField(b, h.Value)
	}
	to = binary.AppendVarint(to, int64(len(b)))
	return append(to, b...)
}

func appendField(to, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(to, -1)
	}
	return append(binary.AppendVarint(to, int64(len(v))), v...)
}

func compress(c Codec, b []byte) []byte {
	var out bytes.Buffer
	switch c {
	case Gzip:
		w := gzip.NewWriter(&out)
		must(w.Write(b))
		must(0, w.Close())
	case Snappy:
		return snappy.Encode(nil, b)
	case LZ4:
		w := lz4.NewWriter(&out)
		must(0, w.Apply(lz4.BlockSizeOption(lz4.Block64Kb)))
		must(w.Write(b))
		must(0, w.Close())
	case Zstd:
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(32<<10))
		must(0, err)
		return e.EncodeAll(b, nil)
	default:
		return b
	}
	return out.Bytes()
}

func must(_ int, err error) {
	if err != nil {
		panic(err) // writing to memory
	}
}
