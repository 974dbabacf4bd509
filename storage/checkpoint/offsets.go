package checkpoint

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"seedlog/clock/task"
	"seedlog/disk"
)

// Offset is a line of a recovery point, high watermark or log start offset checkpoint.
type Offset struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Epoch is a line of a leader epoch checkpoint.
type Epoch struct {
	Epoch       int32
	StartOffset int64
}

// listVersion is the version of all line formats.
const listVersion = "0"

// EncodeOffsets is the file of the offsets, by topic and partition.
func EncodeOffsets(offsets []Offset) []byte {
	sorted := slices.SortedFunc(slices.Values(offsets), compareOffsets)
	b := listHead(len(sorted), 32)
	for _, o := range sorted {
		b = append(b, o.Topic...)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(o.Partition), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, o.Offset, 10)
		b = append(b, '\n')
	}
	return b
}

func compareOffsets(a, b Offset) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// ParseOffsets reads such a file; the lines come back by topic and partition. An empty file
// is an empty list: Kafka creates one before it first writes it.
func ParseOffsets(b []byte) ([]Offset, error) {
	offsets, err := parseList(b, 3, func(line int, f []string) (o Offset, err error) {
		if !validTopic(f[0]) {
			return o, damaged(line, "%q is not a topic name", clip(f[0]))
		}
		o.Topic = f[0]
		p, err := number(line, "partition", f[1], 32)
		if err != nil {
			return o, err
		}
		o.Partition = int32(p)
		o.Offset, err = number(line, "offset", f[2], 64)
		return o, err
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(offsets, compareOffsets)
	for i := 1; i < len(offsets); i++ {
		if compareOffsets(offsets[i-1], offsets[i]) == 0 {
			return nil, damaged(0, "%s-%d is there twice", offsets[i].Topic, offsets[i].Partition)
		}
	}
	return offsets, nil
}

// ReadOffsets reads a checkpoint file, or returns disk.ErrNotExist.
func ReadOffsets(t *task.T, d disk.Disk, name string) ([]Offset, error) {
	return parseFile(t, d, name, maxListBytes, ParseOffsets)
}

// WriteOffsets replaces a checkpoint file.
func WriteOffsets(t *task.T, d disk.Disk, name string, offsets []Offset) error {
	return Replace(t, d, name, EncodeOffsets(offsets))
}

// EncodeEpochs is the file of the epochs, in the order given.
func EncodeEpochs(epochs []Epoch) []byte {
	b := listHead(len(epochs), 16)
	for _, e := range epochs {
		b = strconv.AppendInt(b, int64(e.Epoch), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, e.StartOffset, 10)
		b = append(b, '\n')
	}
	return b
}

// ParseEpochs reads such a file, in its order. An empty file is an empty list. Whether
// epochs and offsets rise is the business of the epoch cache.
func ParseEpochs(b []byte) ([]Epoch, error) {
	return parseList(b, 2, func(line int, f []string) (e Epoch, err error) {
		n, err := number(line, "epoch", f[0], 32)
		if err != nil {
			return e, err
		}
		e.Epoch = int32(n)
		e.StartOffset, err = number(line, "start offset", f[1], 64)
		return e, err
	})
}

// ReadEpochs reads a leader epoch checkpoint, or returns disk.ErrNotExist.
func ReadEpochs(t *task.T, d disk.Disk, name string) ([]Epoch, error) {
	return parseFile(t, d, name, maxListBytes, ParseEpochs)
}

// WriteEpochs replaces a leader epoch checkpoint.
func WriteEpochs(t *task.T, d disk.Disk, name string, epochs []Epoch) error {
	return Replace(t, d, name, EncodeEpochs(epochs))
}

func listHead(n, perLine int) []byte {
	b := make([]byte, 0, 16+n*perLine)
	b = append(b, listVersion+"\n"...)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '\n')
}

// parseList reads version, count and lines of a number of fields.
func parseList[V any](b []byte, fields int, parse func(line int, f []string) (V, error)) ([]V, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if b[len(b)-1] != '\n' {
		return nil, damaged(bytes.Count(b, []byte{'\n'})+1, "the last line has no end")
	}
	lines := strings.Split(string(b[:len(b)-1]), "\n")
	if lines[0] != listVersion {
		return nil, damaged(1, "version %q; known is %s", clip(lines[0]), listVersion)
	}
	if len(lines) < 2 {
		return nil, damaged(2, "there is no count")
	}
	count, err := number(2, "count", lines[1], 32)
	if err != nil {
		return nil, err
	}
	if lines = lines[2:]; int64(len(lines)) != count {
		return nil, damaged(2, "the count is %d, and %d lines follow", count, len(lines))
	}
	list := make([]V, 0, len(lines))
	for i, l := range lines {
		f := strings.Fields(l)
		if len(f) != fields {
			return nil, damaged(i+3, "%d fields instead of %d: %q", len(f), fields, clip(l))
		}
		v, err := parse(i+3, f)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// number reads a decimal number that is not negative.
func number(line int, what, s string, bits int) (int64, error) {
	n, err := strconv.ParseInt(s, 10, bits)
	if err != nil || n < 0 {
		return 0, damaged(line, "%s %q is not a number from 0 on", what, clip(s))
	}
	return n, nil
}

// validTopic reports whether s can be a topic's name.
func validTopic(s string) bool {
	if s == "" || len(s) > 249 || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
