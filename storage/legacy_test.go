package storage

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"seedlog/clock/task"
)

// message is a message of magic 0 or 1 without a key.
func message(magic byte, offset, ts int64, value string) []byte {
	body := []byte{magic, 0}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, uint64(ts))
	}
	body = binary.BigEndian.AppendUint32(body, 0xffffffff)
	body = binary.BigEndian.AppendUint32(body, uint32(len(value)))
	body = append(body, value...)
	b := binary.BigEndian.AppendUint64(nil, uint64(offset))
	b = binary.BigEndian.AppendUint32(b, uint32(4+len(body)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(body))
	return append(b, body...)
}

// A directory whose older segments have message sets of magic 0 and 1 is checked, read,
// searched by time, and appended to.
func TestOldFormatsAreRead(t *testing.T) {
	m := newMachine(t, 21)
	var old []byte
	for i := range int64(40) {
		old = append(old, message(byte(i/20), i, 1000+i, "value")...)
	}
	dir := "/data/logs/a-0"
	m.d.MakeDir("/data/logs")
	m.d.MakeDir(dir)
	m.d.WriteFile(segmentName(dir, 0, logSuffix), append(old, message(1, 40, 1040, "torn")[:30]...))
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Load(tk, func(string, [16]byte) Config { return Config{IndexIntervalBytes: 100} }, nil))[0]
		check(l.Err())
		expect("log end", l.LogEndOffset(), int64(40))
		expect("cut", m.events.count(LogCut), 1)
		expect("time look-up", must(l.OffsetForTime(tk, 1030)), TimeOffset{1030, 30, -1})
		info := must(l.Append(tk, 0, plainBatch(), Client))
		expect("the next offset", info.BaseOffset, int64(40))
		b := must(l.ReadInto(tk, 25, 1<<20, ToLogEnd, true, nil))
		expect("read from 25", binary.BigEndian.Uint64(b), uint64(25))
		check(d.CloseClean(tk, 1))
	})
}
