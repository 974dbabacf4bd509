package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one patch of testdata/mutants: a header of "# key: value" lines, then a unified
// diff. Line numbers are ignored: a hunk applies where its old lines stand, which must be one
// place.
type mutant struct {
	Name   string
	Expect []string // invariants, any of which catches it
	// Scenarios are tried first, in turn; then Swarm, which is the lone broker's if it is empty.
	Scenarios []string
	Swarm     string
	Doc       string
	files     []filePatch
}

type filePatch struct {
	path  string
	hunks [][2]string // old, new
}

func readMutant(path string) (*mutant, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := &mutant{Name: strings.TrimSuffix(filepath.Base(path), ".patch")}
	if err := m.parse(string(b)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func (m *mutant) parse(text string) error {
	var old, new strings.Builder
	inHunk := false
	flush := func() {
		if inHunk && len(m.files) > 0 {
			f := &m.files[len(m.files)-1]
			f.hunks = append(f.hunks, [2]string{old.String(), new.String()})
		}
		old.Reset()
		new.Reset()
		inHunk = false
	}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "# "):
			m.header(line[2:])
		case strings.HasPrefix(line, "--- "):
			flush()
		case strings.HasPrefix(line, "+++ "):
			path := strings.Fields(line[4:])[0]
			m.files = append(m.files, filePatch{path: strings.TrimPrefix(path, "b/")})
		case strings.HasPrefix(line, "@@"):
			flush()
			inHunk = true
		case !inHunk:
		case strings.HasPrefix(line, "-"):
			old.WriteString(line[1:] + "\n")
		case strings.HasPrefix(line, "+"):
			new.WriteString(line[1:] + "\n")
		case strings.HasPrefix(line, `\`):
		default:
			line = strings.TrimPrefix(line, " ")
			old.WriteString(line + "\n")
			new.WriteString(line + "\n")
		}
	}
	flush()
	if len(m.files) == 0 || len(m.Expect) == 0 {
		return errors.New("a mutant needs a diff and a line `# expect: I..`")
	}
	return nil
}

func (m *mutant) header(line string) {
	key, value, _ := strings.Cut(line, ":")
	switch strings.TrimSpace(key) {
	case "expect":
		m.Expect = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	case "scenarios":
		m.Scenarios = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	case "swarm":
		m.Swarm = strings.TrimSpace(value)
	case "what":
		m.Doc = strings.TrimSpace(value)
	}
}

// apply returns the patched contents by path.
func (m *mutant) apply(root string) (map[string][]byte, error) {
	out := make(map[string][]byte)
	for _, f := range m.files {
		b, err := os.ReadFile(filepath.Join(root, f.path))
		if err != nil {
			return nil, err
		}
		for i, h := range f.hunks {
			if n := bytes.Count(b, []byte(h[0])); n != 1 {
				return nil, fmt.Errorf("%s: hunk %d stands in %s %d times", m.Name, i+1, f.path, n)
			}
			b = bytes.Replace(b, []byte(h[0]), []byte(h[1]), 1)
		}
		out[f.path] = b
	}
	return out, nil
}
