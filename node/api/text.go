package api

import (
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
)

// unsafeText is b as a string without a copy, for look-ups only: b lies in a frame.
func unsafeText(b []byte) string { return kbin.UnsafeString(b) }

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// textMax is the longest string of the protocol, in bytes. What is not compact has two bytes for
// its length; a compact string could be longer, and would then fit into no record and no answer
// of an older version.
const textMax = 1<<15 - 1

// hasLongText reports whether a decoded request has a string that is longer.
func hasLongText(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return v.Len() > textMax
	case reflect.Pointer:
		return !v.IsNil() && hasLongText(v.Elem())
	case reflect.Slice:
		return hasLongElement(v)
	case reflect.Struct:
		for i := range v.NumField() {
			if hasLongText(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

func hasLongElement(list reflect.Value) bool {
	if k := list.Type().Elem().Kind(); k != reflect.String && k != reflect.Pointer && k != reflect.Struct {
		return false // bytes and numbers
	}
	for i := range list.Len() {
		if hasLongText(list.Index(i)) {
			return true
		}
	}
	return false
}
