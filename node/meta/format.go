package meta

import (
	"fmt"
	"slices"
	"strings"
)

// FeatureLevel is a feature and the level that it is to be finalized at.
type FeatureLevel struct {
	Name  string
	Level int16
}

// FeatureError is a feature that a new cluster cannot begin with, in Kafka's words.
type FeatureError struct{ Why string }

func (e *FeatureError) Error() string { return e.Why }

func featuref(format string, args ...any) error { return &FeatureError{fmt.Sprintf(format, args...)} }

// releases are the releases of Kafka and the metadata.version that each finalizes.
var releases = [...]struct {
	name  string
	level int16
}{
	{"3.9-IV0", MetadataVersion39IV0}, {"4.0-IV0", 22}, {"4.0-IV1", MetadataVersion40IV1}, {"4.0-IV2", 24},
	{"4.0-IV3", MetadataVersion40IV3}, {"4.1-IV0", 26}, {"4.1-IV1", MetadataVersion41IV1},
}

// ReleaseLevel is the metadata.version of a release: 4.0 is the newest of 4.0.
func ReleaseLevel(release string) (int16, error) {
	level := int16(0)
	for _, r := range releases {
		short, _, _ := strings.Cut(r.name, "-")
		if r.name == release || short == release || strings.HasPrefix(release, short+".") {
			level = r.level
		}
	}
	if level == 0 {
		return 0, featuref("Unknown release version '%s'. Supported versions are: %s to %s", release, releases[0].name, releases[len(releases)-1].name)
	}
	return level, nil
}

// InitialRecords are the records that a new cluster begins with under a release ("" is the
// default) and the features that were asked for. The level of kraft.version is not among
// them, for it is in no record: dynamic says whether the cluster has dynamic voters.
func InitialRecords(release string, features []FeatureLevel, dynamic bool) ([]Record, error) {
	level, elr := int16(DefaultMetadataVersion), int16(DefaultELRVersion)
	asked := func(name string) (int16, bool) {
		i := slices.IndexFunc(features, func(f FeatureLevel) bool { return f.Name == name })
		if i < 0 {
			return 0, false
		}
		return features[i].Level, true
	}
	if n, ok := asked(MetadataVersionFeature); ok {
		if release != "" {
			return nil, featuref("Use --release-version instead of --feature %s=X to avoid ambiguity.", MetadataVersionFeature)
		}
		level = n
	}
	if release != "" {
		var err error
		if level, err = ReleaseLevel(release); err != nil {
			return nil, err
		}
	}
	if level < MetadataVersion40IV1 {
		elr = 0
	}
	if n, ok := asked(ELRVersionFeature); ok {
		elr = n
	}
	if err := checkKRaft(asked, dynamic); err != nil {
		return nil, err
	}
	if elr > 0 && level < MetadataVersion40IV1 {
		return nil, featuref("%s could not be set to %d because it depends on %s level %d", ELRVersionFeature, elr, MetadataVersionFeature, MetadataVersion40IV1)
	}
	records := []Record{{0, &FeatureLevelRecord{Name: MetadataVersionFeature, FeatureLevel: level}}}
	if elr > 0 {
		records = append(records, Record{0, &FeatureLevelRecord{Name: ELRVersionFeature, FeatureLevel: elr}})
	}
	for _, f := range append(slices.Clone(features), FeatureLevel{MetadataVersionFeature, level}) {
		if err := checkInitial(f); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func checkKRaft(asked func(string) (int16, bool), dynamic bool) error {
	n, ok := asked(KRaftVersionFeature)
	switch {
	case ok && n == 0 && dynamic:
		return featuref("Cannot set kraft.version to %d if KIP-853 configuration is present. Try removing the --feature flag for kraft.version.", n)
	case ok && n != 0 && !dynamic:
		return featuref("Cannot set kraft.version to %d unless KIP-853 configuration is present. Try removing the --feature flag for kraft.version.", n)
	}
	return nil
}

func checkInitial(f FeatureLevel) error {
	var names []string
	for _, s := range supported {
		names = append(names, s.Name)
	}
	if !slices.Contains(names, f.Name) {
		return featuref("Unsupported feature: %s. Supported features are: %s", f.Name, strings.Join(names, ", "))
	}
	for _, s := range supported {
		if s.Name == f.Name && (f.Level < s.Min || f.Level > s.Max) {
			return featuref("No feature:%s with feature level %d; this version serves %d to %d", f.Name, f.Level, s.Min, s.Max)
		}
	}
	return nil
}
