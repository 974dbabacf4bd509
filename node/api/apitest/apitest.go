// Package apitest makes requests for tests: of any key and version, with something in every
// field.
package apitest

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Filled is a request in which every array has n elements and every string, pointer and
// number something that is not its default.
func Filled(key, version int16, n int) kmsg.Request {
	req := kmsg.RequestForKey(key)
	fill(reflect.ValueOf(req).Elem(), n)
	req.SetVersion(version)
	return req
}

func fill(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && v.Type().Field(i).Name != "UnknownTags" {
				fill(f, n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(v.Index(i), n)
		}
	case reflect.Array:
		v.Index(0).SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(1)
	}
}

// Wide is valid requests of about size bytes, one for each array that the request has, each
// with nothing but elements of that array. Elements are empty, or filled.
func Wide(key, version int16, size int, filled bool) []kmsg.Request {
	var out []kmsg.Request
	for path := range arrays(reflect.TypeOf(kmsg.RequestForKey(key)).Elem(), nil) {
		const few = 1000
		n := len(wide(key, version, path, few, filled).AppendTo(nil))
		if n < few {
			continue // not in this version
		}
		out = append(out, wide(key, version, path, few*size/n, filled))
	}
	return out
}

func wide(key, version int16, path []int, n int, filled bool) kmsg.Request {
	req := Filled(key, version, 0)
	widen(reflect.ValueOf(req).Elem(), path, n, filled)
	req.SetVersion(version)
	return req
}

// arrays yields the paths to all arrays, as field numbers.
func arrays(t reflect.Type, path []int) func(func([]int) bool) {
	return func(yield func([]int) bool) {
		for i := range t.NumField() {
			if f := t.Field(i); f.Type.Kind() != reflect.Slice || f.Type.Elem().Kind() == reflect.Uint8 {
				continue
			}
			here := append(path[:len(path):len(path)], i)
			if !yield(here) {
				return
			}
			if elem := t.Field(i).Type.Elem(); elem.Kind() == reflect.Struct {
				for deeper := range arrays(elem, here) {
					if !yield(deeper) {
						return
					}
				}
			}
		}
	}
}

// widen gives the array at the end of the path n elements, those on the way one.
func widen(v reflect.Value, path []int, n int, filled bool) {
	f := v.Field(path[0])
	if len(path) > 1 {
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		fill(f.Index(0), 0)
		widen(f.Index(0), path[1:], n, filled)
		return
	}
	f.Set(reflect.MakeSlice(f.Type(), n, n))
	for i := range n {
		if filled {
			fill(f.Index(i), 1)
		}
	}
}
