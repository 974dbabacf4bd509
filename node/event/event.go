// Package event holds the typed events of a node: what happened, to whom, with which
// numbers. Production turns them into structured log lines; the simulator turns them into
// its trace and its reachability probes. They inform; they do not testify: checkers of stored
// state read the simulated disk's bytes.
package event

// Sink receives events. Emit must not wait, and must not call back into the node.
type Sink interface {
	Emit(e Event)
}

// Event is one happening.
type Event interface {
	// Name is the kind in kebab-case, the same for every event of the type.
	Name() string
	// Fields lists the numbers and names in a fixed order.
	Fields(f *Fields)
}

// Level is how much an operator should care.
type Level uint8

const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Leveled is implemented by events that are not Info.
type Leveled interface{ Level() Level }

// Field is one key with its value, a number or a text.
type Field struct {
	Key   string
	Num   int64
	Text  string
	IsNum bool
}

// Fields collects an event's fields without an allocation per field.
type Fields struct {
	List []Field
}

// Int adds a number.
func (f *Fields) Int(key string, v int64) {
	f.List = append(f.List, Field{Key: key, Num: v, IsNum: true})
}

// Str adds a text.
func (f *Fields) Str(key, v string) { f.List = append(f.List, Field{Key: key, Text: v}) }

// Err adds an error's text, or nothing for nil.
func (f *Fields) Err(err error) {
	if err != nil {
		f.Str("error", err.Error())
	}
}
