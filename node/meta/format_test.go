package meta

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatANewClusterBeginsWith(t *testing.T) {
	levels := func(records []Record) (out []FeatureLevel) {
		for _, r := range records {
			f := r.Body.(*FeatureLevelRecord)
			out = append(out, FeatureLevel{f.Name, f.FeatureLevel})
		}
		return out
	}
	mv := func(n int16) FeatureLevel { return FeatureLevel{MetadataVersionFeature, n} }
	elr := func(n int16) FeatureLevel { return FeatureLevel{ELRVersionFeature, n} }
	kraft := func(n int16) FeatureLevel { return FeatureLevel{KRaftVersionFeature, n} }
	for _, c := range []struct {
		release  string
		features []FeatureLevel
		dynamic  bool
		want     []FeatureLevel
		err      string
	}{
		{"", nil, true, levels(BootstrapRecords()), ""},
		{"", []FeatureLevel{kraft(1)}, true, levels(BootstrapRecords()), ""},
		{"3.9", nil, false, []FeatureLevel{mv(21)}, ""},
		{"4.0", nil, false, []FeatureLevel{mv(25), elr(1)}, ""},
		{"4.1.2", nil, false, []FeatureLevel{mv(27), elr(1)}, ""},
		{"4.0-IV1", []FeatureLevel{elr(0)}, false, []FeatureLevel{mv(23)}, ""},
		{"", []FeatureLevel{mv(22)}, false, []FeatureLevel{mv(22)}, ""},
		{"2.8", nil, false, nil, "Unknown release version '2.8'. Supported versions are: 3.9-IV0 to 4.1-IV1"},
		{"4.0", []FeatureLevel{mv(25)}, false, nil, "Use --release-version instead of --feature metadata.version=X to avoid ambiguity."},
		{"3.9", []FeatureLevel{elr(1)}, false, nil, "eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23"},
		{"", []FeatureLevel{kraft(0)}, true, nil, "Cannot set kraft.version to 0 if KIP-853 configuration is present. Try removing the --feature flag for kraft.version."},
		{"", []FeatureLevel{kraft(1)}, false, nil, "Cannot set kraft.version to 1 unless KIP-853 configuration is present. Try removing the --feature flag for kraft.version."},
		{"", []FeatureLevel{{"no.such", 1}}, false, nil, "Unsupported feature: no.such. Supported features are: eligible.leader.replicas.version, group.version, kraft.version, metadata.version, share.version, streams.version, transaction.version"},
		{"", []FeatureLevel{mv(99)}, false, nil, "No feature:metadata.version with feature level 99; this version serves 21 to 27"},
		{"", []FeatureLevel{{ShareVersionFeature, 1}}, false, nil, "No feature:share.version with feature level 1; this version serves 0 to 0"},
	} {
		got, err := InitialRecords(c.release, c.features, c.dynamic)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s %v:\n got %v\nwant %s", c.release, c.features, err, c.err)
			}
			continue
		}
		if diff := cmp.Diff(c.want, levels(got)); diff != "" || err != nil {
			t.Errorf("%s %v: %v %s", c.release, c.features, err, diff)
		}
	}
}
