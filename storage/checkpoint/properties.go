package checkpoint

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"seedlog/clock/task"
	"seedlog/disk"
)

// MetaProperties is the identity of a directory (version 1, of clusters without ZooKeeper).
type MetaProperties struct {
	ClusterID string
	NodeID    int32
	// DirectoryID is zero if the file has none, as before KIP-858.
	DirectoryID UUID
}

// EncodeMetaProperties is the file of p.
func EncodeMetaProperties(p MetaProperties) []byte {
	var b strings.Builder
	b.WriteString("#\n")
	line := func(key, value string) { b.WriteString(key + "=" + escapeProperty(value) + "\n") }
	line("cluster.id", p.ClusterID)
	if p.DirectoryID != (UUID{}) {
		line("directory.id", FormatUUID(p.DirectoryID))
	}
	line("node.id", strconv.Itoa(int(p.NodeID)))
	line("version", "1")
	return []byte(b.String())
}

// ParseMetaProperties reads such a file. Keys that it does not know are ignored.
func ParseMetaProperties(b []byte) (p MetaProperties, err error) {
	props, err := parseProperties(string(b))
	if err != nil {
		return p, err
	}
	version := find(props, "version")
	switch {
	case version == nil:
		return p, damaged(0, "there is no version")
	case version.value == "0":
		return p, damaged(0, "version 0: the directory was written by a cluster with ZooKeeper")
	case version.value != "1":
		return p, damaged(version.line, "version %q; known is 1", clip(version.value))
	}
	cluster, node := find(props, "cluster.id"), find(props, "node.id")
	if cluster == nil || cluster.value == "" {
		return p, damaged(0, "there is no cluster.id")
	}
	if !utf8.ValidString(cluster.value) {
		return p, damaged(cluster.line, "cluster.id is not UTF-8")
	}
	p.ClusterID = cluster.value
	if node == nil {
		return p, damaged(0, "there is no node.id")
	}
	id, err := number(node.line, "node.id", node.value, 32)
	if err != nil {
		return MetaProperties{}, err
	}
	p.NodeID = int32(id)
	if dir := find(props, "directory.id"); dir != nil {
		if p.DirectoryID, err = ParseUUID(dir.value); err != nil {
			return MetaProperties{}, damaged(dir.line, "directory.id: %v", err)
		}
	}
	return p, nil
}

// ReadMetaProperties reads a meta.properties file, or returns disk.ErrNotExist.
func ReadMetaProperties(t *task.T, d disk.Disk, name string) (MetaProperties, error) {
	return parseFile(t, d, name, maxSmallBytes, ParseMetaProperties)
}

// WriteMetaProperties replaces a meta.properties file.
func WriteMetaProperties(t *task.T, d disk.Disk, name string, p MetaProperties) error {
	return Replace(t, d, name, EncodeMetaProperties(p))
}

type property struct {
	key, value string
	line       int
}

// find returns the last property of the key, which is the one that counts.
func find(props []property, key string) *property {
	for i := len(props) - 1; i >= 0; i-- {
		if props[i].key == key {
			return &props[i]
		}
	}
	return nil
}

// parseProperties reads the syntax of java.util.Properties: comments with # or !, key and
// value apart by =, : or white space, backslashes that escape and that continue a line.
func parseProperties(s string) ([]property, error) {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(s, "\n")
	var props []property
	for i := 0; i < len(lines); i++ {
		first := i + 1
		l := strings.TrimLeft(lines[i], " \t\f")
		if l == "" || l[0] == '#' || l[0] == '!' {
			continue
		}
		for endsInBackslash(l) && i+1 < len(lines) {
			i++
			l = l[:len(l)-1] + strings.TrimLeft(lines[i], " \t\f")
		}
		key, value := splitProperty(l)
		k, ok1 := unescapeProperty(key)
		v, ok2 := unescapeProperty(value)
		if !ok1 || !ok2 {
			return nil, damaged(first, "malformed \\u escape in %q", clip(l))
		}
		props = append(props, property{k, v, first})
	}
	return props, nil
}

func endsInBackslash(l string) bool {
	n := len(l) - len(strings.TrimRight(l, `\`))
	return n%2 == 1
}

func splitProperty(l string) (key, value string) {
	end := 0
	for end < len(l) && !strings.ContainsRune("=: \t\f", rune(l[end])) {
		if l[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(l))
	key, value = l[:end], strings.TrimLeft(l[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return key, value
}

func unescapeProperty(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	var units []uint16 // of \u escapes in a row, for surrogate pairs
	flush := func() {
		b.WriteString(string(utf16.Decode(units)))
		units = units[:0]
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			flush()
			if s[i] != '\\' {
				b.WriteByte(s[i])
			}
			continue
		}
		i++
		if s[i] == 'u' {
			if i+5 > len(s) {
				return "", false
			}
			u, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", false
			}
			units = append(units, uint16(u))
			i += 4
			continue
		}
		flush()
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		default:
			b.WriteByte(s[i])
		}
	}
	flush()
	return b.String(), true
}

// escapeProperty writes a value so that Java, and parseProperties, read it back.
func escapeProperty(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == ' ' && i == 0:
			b.WriteString(`\ `)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\f':
			b.WriteString(`\f`)
		case strings.ContainsRune(`\=:#!`, r):
			b.WriteString(`\` + string(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
