// Package config owns the settings: Kafka's names, types, defaults, units and the wording of
// what is wrong with a value. It turns properties into the typed [Config] of a broker and
// the effective [Topic] settings of a topic, and lists both for DescribeConfigs.
//
// Values are layered as in Kafka, the first that is set wins:
//
//	topic override                       (source DynamicTopic)
//	broker override, by broker id        (DynamicBroker)
//	broker override, for all brokers     (DynamicDefaultBroker)
//	properties file and --set            (StaticBroker)
//	the default                          (Default)
//
// It never reads a file, and it never decides what a setting means.
package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Type is the type of a value, numbered as DescribeConfigs does.
type Type int8

const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// Scope says who may change a broker setting at run time.
type Scope uint8

const (
	// ReadOnly needs a restart.
	ReadOnly Scope = iota
	// PerBroker may be changed for one broker or for all.
	PerBroker
	// ClusterWide may be changed for one broker or for all and is meant for all.
	ClusterWide
)

// Def defines one setting.
type Def struct {
	Name     string
	Type     Type
	Default  string
	Unset    bool // there is no default: the value is null
	Doc      string
	Scope    Scope
	Internal bool // works, but is not listed

	min, max int64
	ranged   bool
	oneOf    []string
	nonEmpty bool
	// synonyms are broker names that supply the value, in order; the factor turns their
	// unit into this one's.
	synonyms []synonym
}

type synonym struct {
	name   string
	factor int64
}

// ValueError is a value that a setting does not take, in Kafka's words.
type ValueError struct {
	Name, Value, Why string
}

func (e *ValueError) Error() string {
	s := fmt.Sprintf("Invalid value %s for configuration %s", e.Value, e.Name)
	if e.Why != "" {
		s += ": " + e.Why
	}
	return s
}

// UnknownError is a name that nothing defines.
type UnknownError struct{ What, Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("Unknown %s config name: %s", e.What, e.Name)
}

// Check reports what is wrong with a value, as a [*ValueError].
func (d *Def) Check(value string) error {
	bad := func(why string) error { return &ValueError{Name: d.Name, Value: value, Why: why} }
	v := strings.TrimSpace(value)
	switch d.Type {
	case Boolean:
		if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
			return bad("Expected value to be either true or false")
		}
	case Int, Short, Long:
		n, err := strconv.ParseInt(v, 10, d.Type.bits())
		if err != nil {
			return bad("Not a number of type " + d.Type.String())
		}
		if d.ranged && n < d.min {
			return bad(fmt.Sprintf("Value must be at least %d", d.min))
		}
		if d.ranged && n > d.max {
			return bad(fmt.Sprintf("Value must be no more than %d", d.max))
		}
	case Double:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) {
			return bad("Not a number of type DOUBLE")
		}
		if d.ranged && f < float64(d.min) { //float: a configured value is in its bounds or not
			return bad(fmt.Sprintf("Value must be at least %d", d.min))
		}
		if d.ranged && f > float64(d.max) { //float: a configured value is in its bounds or not
			return bad(fmt.Sprintf("Value must be no more than %d", d.max))
		}
	case List:
		for _, e := range SplitList(v) {
			if len(d.oneOf) > 0 && !contains(d.oneOf, e) {
				return bad("String must be one of: " + strings.Join(d.oneOf, ", "))
			}
		}
		if d.nonEmpty && len(SplitList(v)) == 0 {
			return bad("List must not be empty")
		}
	default:
		if len(d.oneOf) > 0 && !contains(d.oneOf, v) {
			return bad("String must be one of: " + strings.Join(d.oneOf, ", "))
		}
	}
	return nil
}

// SplitList splits a comma-separated list and trims its elements.
func SplitList(v string) []string {
	if strings.TrimSpace(v) == "" {
		return nil
	}
	parts := strings.Split(v, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func (t Type) bits() int {
	switch t {
	case Short:
		return 16
	case Int:
		return 32
	default:
		return 64
	}
}

func (t Type) String() string {
	return [...]string{"", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"}[t]
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// The builders below keep the tables one line a setting.

func def(name string, typ Type, dflt, doc string) *Def {
	return &Def{Name: name, Type: typ, Default: dflt, Doc: doc}
}

func unset(name string, typ Type, doc string) *Def {
	return &Def{Name: name, Type: typ, Unset: true, Doc: doc}
}

func (d *Def) atLeast(min int64) *Def { d.min, d.max, d.ranged = min, math.MaxInt64, true; return d }

func (d *Def) between(min, max int64) *Def { d.min, d.max, d.ranged = min, max, true; return d }

func (d *Def) in(values ...string) *Def { d.oneOf = values; return d }

func (d *Def) required() *Def { d.nonEmpty = true; return d }

func (d *Def) dynamic(s Scope) *Def { d.Scope = s; return d }

func (d *Def) internal() *Def { d.Internal = true; return d }

func (d *Def) from(names ...string) *Def {
	for _, n := range names {
		d.synonyms = append(d.synonyms, synonym{n, 1})
	}
	return d
}

func (d *Def) fromScaled(name string, factor int64) *Def {
	d.synonyms = append(d.synonyms, synonym{name, factor})
	return d
}
