package dump

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
	"seedlog/storage/record"
)

// contents shows key and value of a record as the decoder has it.
func (w *logWriter) contents(r *record.Record) string {
	switch w.Decoder {
	case ClusterMetadata:
		return " payload: " + metadataRecord(r)
	case Offsets:
		return pair(groupRecord(r))
	case TransactionLog:
		return pair(transactionRecord(r))
	}
	line := ""
	if r.Key != nil {
		line += " key: " + printable(string(r.Key))
	}
	if r.Value != nil {
		line += " payload: " + printable(string(r.Value))
	}
	return line
}

func pair(key, value string) string {
	line := " key: " + key
	if value != "" {
		line += " payload: " + value
	}
	return line
}

// metadataRecord shows a record of the metadata log.
func metadataRecord(r *record.Record) string {
	m, err := meta.ParseRecord(r.Value)
	if err != nil {
		return fmt.Sprintf("Error at %d, skipping. %v", r.Offset, err)
	}
	return fmt.Sprintf(`{"type":%s,"version":%d,"data":%s}`, quote(screamingName(meta.Name(m.Body))), m.Version, toJSON(m.Body))
}

// message is what kmsg's record types have in common.
type message interface{ ReadFrom([]byte) error }

// groupRecord shows a record of __consumer_offsets written by the classic protocol.
func groupRecord(r *record.Record) (key, value string) {
	if len(r.Key) < 2 {
		return fmt.Sprintf("Error at offset %d, skipping. The key has %d bytes.", r.Offset, len(r.Key)), ""
	}
	version := int16(binary.BigEndian.Uint16(r.Key))
	switch version {
	case 0, 1:
		return keyAndValue(r, version, new(kmsg.OffsetCommitKey), new(kmsg.OffsetCommitValue))
	case 2:
		return keyAndValue(r, version, new(kmsg.GroupMetadataKey), new(kmsg.GroupMetadataValue))
	}
	return fmt.Sprintf("Unknown record type %d at offset %d, skipping.", version, r.Offset), ""
}

// transactionRecord shows a record of __transaction_state.
func transactionRecord(r *record.Record) (key, value string) {
	if len(r.Key) < 2 || binary.BigEndian.Uint16(r.Key) != 0 {
		return fmt.Sprintf("Unknown record type at offset %d, skipping.", r.Offset), ""
	}
	return keyAndValue(r, 0, new(kmsg.TxnMetadataKey), new(kmsg.TxnMetadataValue))
}

func keyAndValue(r *record.Record, version int16, k, v message) (key, value string) {
	if err := k.ReadFrom(r.Key); err != nil {
		return fmt.Sprintf("Error at offset %d, skipping. %v", r.Offset, err), ""
	}
	key = fmt.Sprintf(`{"type":"%d","data":%s}`, version, toJSON(k))
	if r.Value == nil {
		return key, "<DELETE>"
	}
	if err := v.ReadFrom(r.Value); err != nil || len(r.Value) < 2 {
		return key, fmt.Sprintf("Error at offset %d, skipping. %v", r.Offset, err)
	}
	return key, fmt.Sprintf(`{"version":"%d","data":%s}`, binary.BigEndian.Uint16(r.Value), toJSON(view(v)))
}

// printable returns s as it is if a terminal can take it, quoted otherwise.
func printable(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return strconv.Quote(s)
	}
	return s
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(b)
}

// toJSON shows a message with Kafka's field names: exported fields in lower camel case, ids in
// base64, bytes too, null for nil.
func toJSON(v any) string {
	var b strings.Builder
	writeJSON(&b, reflect.ValueOf(v))
	return b.String()
}

func writeJSON(b *strings.Builder, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("null")
			return
		}
		writeJSON(b, v.Elem())
	case reflect.Struct:
		writeStruct(b, v)
	case reflect.Array, reflect.Slice:
		writeList(b, v)
	case reflect.String:
		b.WriteString(quote(v.String()))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		b.WriteString(strconv.FormatInt(v.Int(), 10)) // also where a type has a name to print
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		b.WriteString(strconv.FormatUint(v.Uint(), 10))
	default:
		fmt.Fprint(b, v.Interface())
	}
}

func writeStruct(b *strings.Builder, v reflect.Value) {
	b.WriteByte('{')
	first := true
	for i := range v.NumField() {
		f := v.Type().Field(i)
		shown := field(v.Type().Name(), f.Name)
		if !f.IsExported() || shown.omits(v.Field(i)) {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.WriteString(quote(shown.name) + ":")
		writeJSON(b, v.Field(i))
	}
	b.WriteByte('}')
}

func writeList(b *strings.Builder, v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if v.Kind() == reflect.Slice && v.IsNil() {
			b.WriteString("null")
			return
		}
		raw := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(raw), v)
		if v.Kind() == reflect.Array {
			b.WriteString(quote(base64.RawURLEncoding.EncodeToString(raw)))
			return
		}
		b.WriteString(quote(base64.StdEncoding.EncodeToString(raw)))
		return
	}
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		writeJSON(b, v.Index(i))
	}
	b.WriteByte(']')
}

// words splits a Go name: TopicID is Topic, ID; KRaftVersion is K, Raft, Version.
func words(name string) []string {
	var list []string
	start := 0
	r := []rune(name)
	for i := 1; i < len(r); i++ {
		up := unicode.IsUpper(r[i])
		if up && (!unicode.IsUpper(r[i-1]) || i+1 < len(r) && unicode.IsLower(r[i+1])) {
			list = append(list, string(r[start:i]))
			start = i
		}
	}
	return append(list, string(r[start:]))
}

// camelName is Kafka's JSON name of a field: topicId for TopicID.
func camelName(name string) string {
	list := words(name)
	for i, w := range list {
		w = strings.ToLower(w)
		if i > 0 {
			w = strings.ToUpper(w[:1]) + w[1:]
		}
		list[i] = w
	}
	return strings.Join(list, "")
}

// screamingName is Kafka's name of a record type: TOPIC_RECORD for TopicRecord.
func screamingName(name string) string { return strings.ToUpper(strings.Join(words(name), "_")) }
