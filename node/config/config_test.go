package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustParse(t *testing.T, props map[string]string) *Config {
	t.Helper()
	c, unknown, err := Parse(props)
	if err != nil || len(unknown) > 0 {
		t.Fatalf("Parse: %v, unknown %v", err, unknown)
	}
	return c
}

func TestEveryDefaultPassesItsOwnCheck(t *testing.T) {
	for _, defs := range [][]*Def{topicDefs, brokerDefs} {
		for _, d := range defs {
			if d.Unset || d.Internal && d.Default == "" {
				continue
			}
			if err := d.Check(d.Default); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
		}
	}
	for _, d := range topicDefs {
		for _, s := range d.synonyms {
			if brokerByName[s.name] == nil {
				t.Errorf("%s takes its default from %s, which does not exist", d.Name, s.name)
			} else if b := brokerByName[s.name]; s.factor == 1 && !b.Unset && s == d.synonyms[0] && b.Default != d.Default {
				t.Errorf("%s defaults to %s and %s to %s", d.Name, d.Default, b.Name, b.Default)
			}
		}
	}
}

func TestWrongValuesAreRefusedInKafkasWords(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"segment.bytes", "102400", "Invalid value 102400 for configuration segment.bytes: Value must be at least 1048576"},
		{"segment.bytes", "many", "Invalid value many for configuration segment.bytes: Not a number of type INT"},
		{"segment.bytes", "99999999999", "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT"},
		{"preallocate", "maybe", "Invalid value maybe for configuration preallocate: Expected value to be either true or false"},
		{"cleanup.policy", "shrink", "Invalid value shrink for configuration cleanup.policy: String must be one of: compact, delete"},
		{"min.cleanable.dirty.ratio", "2", "Invalid value 2 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"no.such", "1", "Unknown topic config name: no.such"},
	} {
		if err := CheckTopic(c.name, c.value); err == nil || err.Error() != c.want {
			t.Errorf("%s=%s: %v, want %s", c.name, c.value, err, c.want)
		}
	}
	for _, ok := range []string{"compact", "delete", "compact,delete", "delete, compact"} {
		if err := CheckTopic("cleanup.policy", ok); err != nil {
			t.Errorf("cleanup.policy=%s: %v", ok, err)
		}
	}
}

func TestTopicSettingsResolveThroughTheLayers(t *testing.T) {
	c := mustParse(t, map[string]string{"log.retention.hours": "2", "log.segment.bytes": "2097152"})
	if got := c.Topic(nil); got.RetentionMs != 7_200_000 || got.SegmentBytes != 2097152 || !got.CleanupDelete {
		t.Errorf("from the file: %+v", got)
	}
	d := c.WithDynamic(map[string]string{"log.segment.bytes": "4194304"}, map[string]string{"log.segment.bytes": "3145728", "log.retention.ms": "5"})
	if got := d.Topic(nil); got.SegmentBytes != 4194304 || got.RetentionMs != 5 {
		t.Errorf("dynamic: %+v", got)
	}
	if got := d.Topic(map[string]string{"segment.bytes": "1048576", "internal.segment.bytes": "2000"}); got.SegmentBytes != 2000 {
		t.Errorf("override: %d", got.SegmentBytes)
	}
	if got := mustParse(t, map[string]string{"log.retention.minutes": "-1"}).Topic(nil).RetentionMs; got != -1 {
		t.Errorf("unlimited retention became %d", got)
	}
	var seg Entry
	for _, e := range d.DescribeTopic(map[string]string{"segment.bytes": "1048576"}) {
		if e.Name == "segment.bytes" {
			seg = e
		}
	}
	want := []Synonym{
		{Name: "segment.bytes", Value: "1048576", Source: SourceTopic},
		{Name: "log.segment.bytes", Value: "4194304", Source: SourceDynamicBroker},
		{Name: "log.segment.bytes", Value: "3145728", Source: SourceDynamicDefault},
		{Name: "log.segment.bytes", Value: "2097152", Source: SourceStatic},
		{Name: "log.segment.bytes", Value: "1073741824", Source: SourceDefault},
	}
	if diff := cmp.Diff(want, seg.Synonyms); diff != "" {
		t.Error(diff)
	}
}

func TestListenersAndDirectories(t *testing.T) {
	c := mustParse(t, map[string]string{"listeners": "PLAINTEXT://127.0.0.1:9092,INTERNAL://[::1]:0", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT", "log.dirs": "/a, /b", "node.id": "7"})
	if len(c.Listeners) != 2 || c.Listeners[1].Addr() != "[::1]:0" || c.NodeID != 7 || c.MetadataLogDir != "/a" {
		t.Errorf("%+v", c)
	}
	for _, bad := range []map[string]string{
		{"listeners": "9092"}, {"listeners": "PLAINTEXT://:99999"}, {"listeners": "SSL://:9093"},
		{"listeners": "A://:1,A://:2"}, {"log.dirs": "/a,/a"}, {"node.id": "1", "broker.id": "2"}, {"listeners": ""},
	} {
		if _, _, err := Parse(bad); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
	if _, unknown, err := Parse(map[string]string{"zookeeper.connect": "x"}); err != nil || len(unknown) != 1 {
		t.Errorf("an unknown name is a warning: %v %v", unknown, err)
	}
}

// A blank between commas is no directory, and a directory that is written in two ways is one.
func TestLogDirsAreDirectories(t *testing.T) {
	c := mustParse(t, map[string]string{"log.dirs": "/a,, /b/,", "metadata.log.dir": "/b"})
	if !slices.Equal(c.LogDirs, []string{"/a", "/b"}) || c.MetadataLogDir != "/b" {
		t.Errorf("directories %q, metadata in %q", c.LogDirs, c.MetadataLogDir)
	}
	for text, want := range map[string]string{"/a,/b,/a/": "log.dirs names /a twice", "a,./a": "log.dirs names a twice", " ": "log.dirs is empty", ",": "log.dirs is empty"} {
		if _, _, err := Parse(map[string]string{"log.dirs": text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("log.dirs=%q: %v, want %s", text, err, want)
		}
	}
}

// A client is told the address alone and makes "host:port" of it itself.
func TestAnIPv6ListenerStandsInBrackets(t *testing.T) {
	for text, want := range map[string]Listener{
		"PLAINTEXT://[::1]:9092":      {"PLAINTEXT", "::1", 9092},
		"PLAINTEXT://[fe80::1%lo]:1":  {"PLAINTEXT", "fe80::1%lo", 1},
		"PLAINTEXT://::1:9092":        {"PLAINTEXT", "::1", 9092},
		"plaintext://my_host.x-y:443": {"PLAINTEXT", "my_host.x-y", 443},
		"PLAINTEXT://:0":              {"PLAINTEXT", "", 0},
	} {
		c := mustParse(t, map[string]string{"listeners": text})
		if got := c.Listeners[0]; got != want || got.Addr() == "::1:9092" {
			t.Errorf("%s is %+v at %s", text, got, got.Addr())
		}
	}
	for _, bad := range []string{"PLAINTEXT://a b:9092", "PLAINTEXT://[one]]:9092", "PLAINTEXT://[::1:9092", "PLAINTEXT://one,two:9092", "PLAINTEXT://one:9092/", "PLAINTEXT://PLAINTEXT://one:9092"} {
		for _, name := range []string{"listeners", "advertised.listeners"} {
			if _, _, err := Parse(map[string]string{name: bad}); err == nil {
				t.Errorf("%s=%s is taken", name, bad)
			}
		}
	}
}

func TestPropertiesSyntax(t *testing.T) {
	got, err := ParseProperties("# c\n! d\na=1\nb : 2\nc 3\n  d = x \\\n   y\ne=\\u0041\\t\\\\\nf\\=g=h\ra=9\nempty=\n")
	want := map[string]string{"a": "9", "b": "2", "c": "3", "d": "x y", "e": "A\t\\", "f=g": "h", "empty": ""}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := ParseProperties("ok=1\nx=\\u00"); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a malformed escape names its line: %v", err)
	}
}

func FuzzProperties(f *testing.F) {
	f.Add("a=1\nb:2\n\\")
	f.Add("a\\u0041=\\\n b")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseProperties(text)
		if err == nil {
			_, _, _ = Parse(m)
		}
	})
}
