package scenarios

import (
	"slices"
	"testing"

	"seedlog/checker"
	"seedlog/scenarios/client"
)

func TestWhatIsTheDirectoryOfAPartition(t *testing.T) {
	for name, want := range map[string]bool{
		"t-0": true, "t-a-12": true, "t.-0": true, "a.b-3": true,
		metadataDir: false, "t": false, "-0": false, "t-": false,
		"t-0.0123456789abcdef0123456789abcdef-delete": false, "t-0.0123456789abcdef0123456789abcdef-future": false, "t-0.0123456789abcdef0123456789abcdef-stray": false,
	} {
		if got := isPartition(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Copies of a log are equal (I1), but for what a copy has below its log start.
func TestCopiesAreComparedFromTheirLogStarts(t *testing.T) {
	one := func(at byte, seq int32, value string) []byte {
		b := client.Encode(client.BatchSpec{ProducerID: 7, BaseSequence: seq}, []client.Record{{Value: []byte(value)}})
		b[7] = at
		return b
	}
	good := slices.Concat(one(0, 0, "a"), one(1, 1, "b"), one(2, 2, "c"))
	for _, c := range []struct {
		name  string
		log   []byte
		start string
		want  []string
	}{
		{"equal", good, "0\n0\n", nil},
		{"another batch", slices.Concat(one(0, 0, "a"), one(1, 1, "x"), one(2, 2, "c")), "0\n0\n", []string{"I1"}},
		{"another batch below the log start", slices.Concat(one(0, 4, "x"), one(1, 5, "y"), one(2, 2, "c")), "0\n1\nt 0 2\n", nil},
		{"another batch, of which the log start leaves one", slices.Concat(one(0, 4, "x"), one(1, 5, "y"), one(2, 2, "c")), "0\n1\nt 0 1\n", []string{"I1"}},
		{"one batch fewer", good[:len(one(0, 0, "a"))+len(one(1, 1, "b"))], "0\n0\n", []string{"I1"}},
	} {
		var dirs []nodeDir
		for i, log := range [][]byte{good, c.log} {
			s := onDisk(t)
			s.Disk.WriteFile(segmentPath(0), log)
			if i == 1 {
				s.Disk.WriteFile("/data/log-start-offset-checkpoint", []byte(c.start))
			}
			dirs = append(dirs, nodeDir{&Judge{Files: s.Disk, LogDirs: []string{"/data"}}, "/data/t-0"})
		}
		var v checker.Verdict
		new(ClusterJudge).copies("t-0", dirs, true, nil, &v)
		var got []string
		for _, x := range v.Violations {
			if x.Invariant == "I1" || x.Invariant == "I18" {
				got = append(got, x.Invariant)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}
